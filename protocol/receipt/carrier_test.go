package receipt

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// conformance is where the protocol's published test data lie.
const conformance = "../../../shared/conformance/peac"

// sampleJWS has the form of a receipt and is none.
const sampleJWS = "eyJhbGciOiJFZERTQSJ9.eyJpc3MiOiJkaWQ6a2V5OnoxMjMifQ.c2lnbmF0dXJl"

func sampleRef() string { return Reference(sampleJWS) }

func fullCarrier() *Carrier {
	c := NewCarrier(sampleJWS)
	c.ReceiptURL = "https://receipts.example/r/1"
	c.PolicyBinding = "sha256:" + strings.Repeat("d", 64)
	c.ActorBinding = "did:key:z6Mk"
	c.RequestNonce = "nonce-1"
	c.VerificationReportRef = "urn:report:1"
	c.UsePolicyRef = "https://example.org/policy"
	c.RepresentationRef = "sha256:" + strings.Repeat("0", 64)
	c.AttestationRef = "urn:attestation:1"
	return c
}

func wantCode(t *testing.T, err error, code Code) {
	t.Helper()
	if CodeOf(err) != code {
		t.Errorf("got %v, want %q", err, code)
	}
}

func TestCarrier_publishedCasesGetTheirVerdict(t *testing.T) {
	files, _ := filepath.Glob(conformance + "/carrier/*.json")
	if len(files) == 0 {
		t.Skip("the published test data are not here")
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var c struct {
			Carrier map[string]any
			Meta    struct {
				Transport Transport
				MaxSize   int `json:"max_size"`
			}
			Valid bool `json:"expected_valid"`
		}
		if err := json.Unmarshal(data, &c); err != nil {
			t.Fatal(err)
		}
		var read Carrier
		_, err = read.readMembers(c.Carrier, "")
		if err == nil {
			err = read.Check(c.Meta.Transport)
		}
		if c.Valid != (err == nil) || c.Meta.MaxSize != c.Meta.Transport.Limit() {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
	}
}

func TestCheck_refusesWhatIsNoCarrier(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Carrier)
		code   Code
	}{
		"no reference":           {func(c *Carrier) { c.ReceiptRef = "" }, CodeInvalidFormat},
		"reference in capitals":  {func(c *Carrier) { c.ReceiptRef = "sha256:" + strings.Repeat("A", 64) }, CodeInvalidFormat},
		"reference too long":     {func(c *Carrier) { c.ReceiptRef += "0" }, CodeInvalidFormat},
		"another hash":           {func(c *Carrier) { c.ReceiptRef = "sha512:" + strings.Repeat("0", 64) }, CodeInvalidFormat},
		"two parts":              {func(c *Carrier) { c.ReceiptJWS = "a2V5.a2V5" }, CodeInvalidFormat},
		"four parts":             {func(c *Carrier) { c.ReceiptJWS = "a2V5.a2V5.a2V5.a2V5" }, CodeInvalidFormat},
		"an empty part":          {func(c *Carrier) { c.ReceiptJWS = "a2V5..a2V5" }, CodeInvalidFormat},
		"a part in base64":       {func(c *Carrier) { c.ReceiptJWS = "a2V5.a2V=.a2V5" }, CodeInvalidFormat},
		"a line break":           {func(c *Carrier) { c.ReceiptJWS = "a2V5.a2\nV5.a2V5" }, CodeInvalidFormat},
		"URL without TLS":        {func(c *Carrier) { c.ReceiptURL = "http://receipts.example/1" }, CodeInvalidFormat},
		"URL with user":          {func(c *Carrier) { c.ReceiptURL = "https://a:b@receipts.example/1" }, CodeInvalidFormat},
		"URL with empty user":    {func(c *Carrier) { c.ReceiptURL = "https://@receipts.example/1" }, CodeInvalidFormat},
		"URL with fragment":      {func(c *Carrier) { c.ReceiptURL = "https://receipts.example/1#a" }, CodeInvalidFormat},
		"URL without host":       {func(c *Carrier) { c.ReceiptURL = "https:///1" }, CodeInvalidFormat},
		"relative URL":           {func(c *Carrier) { c.ReceiptURL = "/1" }, CodeInvalidFormat},
		"URL with a line break":  {func(c *Carrier) { c.ReceiptURL = "https://receipts.example/1\r\nX: y" }, CodeInvalidFormat},
		"URL beyond ASCII":       {func(c *Carrier) { c.ReceiptURL = "https://réceipts.example/1" }, CodeInvalidFormat},
		"URL too long":           {func(c *Carrier) { c.ReceiptURL = "https://a.example/" + strings.Repeat("a", MaxReceiptURL) }, CodeInvalidFormat},
		"a member that is bytes": {func(c *Carrier) { c.RequestNonce = "\xff" }, CodeInvalidFormat},
		"larger than the limit":  {func(c *Carrier) { c.RequestNonce = strings.Repeat("n", 64<<10) }, CodeVerifyReceiptTooLarge},
		"far larger":             {func(c *Carrier) { c.ReceiptJWS = strings.Repeat("a2V5", 1<<20) + ".a2V5.a2V5" }, CodeVerifyReceiptTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			carrier := fullCarrier()
			c.change(carrier)
			wantCode(t, carrier.Check(TransportMCP), c.code)
		})
	}
	if err := fullCarrier().Check(TransportMCP); err != nil {
		t.Error(err)
	}
	wantCode(t, fullCarrier().Check("carrier-pigeon"), CodeVerifyInvalidTransport)
}

func TestCheck_takesACarrierOfExactlyTheLimitOfEachTransport(t *testing.T) {
	for transport, limit := range carrierLimits {
		c := NewCarrier(sampleJWS)
		c.RequestNonce = "n"
		c.RequestNonce = strings.Repeat("n", limit-c.size()+1)
		if err := c.Check(transport); err != nil {
			t.Errorf("%s: %v", transport, err)
		}
		c.RequestNonce += "n"
		wantCode(t, c.Check(transport), CodeVerifyReceiptTooLarge)
	}
}

func TestCheckReference_findsAnExchangedReceipt(t *testing.T) {
	c := fullCarrier()
	if err := c.CheckReference(); err != nil {
		t.Error(err)
	}
	c.ReceiptJWS = "a2V5.a2V5.a2V5"
	wantCode(t, c.CheckReference(), CodeInvalidFormat)
	c.ReceiptJWS = ""
	if err := c.CheckReference(); err != nil || c.Format() != FormatReference {
		t.Errorf("a reference alone: %v", err)
	}
}

func TestCheckFetched_takesOnlyTheReceiptThatIsMeant(t *testing.T) {
	c := Carrier{ReceiptRef: sampleRef(), ReceiptURL: "https://receipts.example/1"}
	if err := c.CheckFetched(sampleJWS); err != nil {
		t.Error(err)
	}
	wantCode(t, c.CheckFetched(sampleJWS+"x"), CodeVerifyPointerDigestMismatch)
	wantCode(t, c.CheckFetched(strings.Repeat("x", maxPointerBody+1)), CodeVerifyPointerFetchTooLarge)
}

func TestWriting_refusesWhatAReaderWouldRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Carrier)
		code   Code
	}{
		"exchanged receipt": {func(c *Carrier) { c.ReceiptJWS = "a2V5.a2V5.a2V5" }, CodeInvalidFormat},
		"long member":       {func(c *Carrier) { c.ActorBinding = strings.Repeat("a", maxCarrierEmitted+1) }, CodeConstraint},
		"bad URL":           {func(c *Carrier) { c.ReceiptURL = "ftp://receipts.example" }, CodeInvalidFormat},
	} {
		carrier := fullCarrier()
		c.change(carrier)
		meta := map[string]any{}
		wantCode(t, carrier.ToMCP(meta), c.code)
		wantCode(t, ToA2A(meta, []Carrier{*carrier}), c.code)
		if len(meta) != 0 {
			t.Errorf("%s: something was written: %v", name, meta)
		}
	}
}

func TestParseCarrier_readsWhatItsJSONIs(t *testing.T) {
	data, err := json.Marshal(fullCarrier())
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseCarrier(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fullCarrier(), c); diff != "" {
		t.Error(diff)
	}
	for name, body := range map[string]string{
		"nothing": ``, "null": `null`, "an array": `[]`, "a text": `"a"`,
		"a name twice":      `{"receipt_ref":"` + sampleRef() + `","receipt_ref":"` + sampleRef() + `"}`,
		"a number":          `{"receipt_ref":1}`,
		"an empty member":   `{"receipt_ref":"` + sampleRef() + `","actor_binding":""}`,
		"a null member":     `{"receipt_ref":"` + sampleRef() + `","actor_binding":null}`,
		"another spelling":  `{"Receipt_Ref":"` + sampleRef() + `"}`,
		"an exchanged jws":  `{"receipt_ref":"` + sampleRef() + `","receipt_jws":"a2V5.a2V5.a2V5"}`,
		"a jws without ref": `{"receipt_jws":"` + sampleJWS + `"}`,
	} {
		if _, err := ParseCarrier([]byte(body)); CodeOf(err) != CodeInvalidFormat {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = ParseCarrier(make([]byte, TransportBody.Limit()+1))
	wantCode(t, err, CodePayloadTooLarge)
	if _, err := ParseCarrier([]byte(`{"receipt_ref":"` + sampleRef() + `","later":{}}`)); err != nil {
		t.Errorf("a member of a later version: %v", err)
	}
}

func TestCarrier_returnsAsItWasByEveryTransport(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := NewCarrier(rapid.StringMatching(`([A-Za-z0-9_-]{4}){1,9}\.([A-Za-z0-9_-]{4}){1,9}\.([A-Za-z0-9_-]{4}){1,9}`).Draw(t, "jws"))
		c.ActorBinding = rapid.StringN(0, 40, 200).Draw(t, "actor")
		c.RequestNonce = rapid.StringN(0, 40, 200).Draw(t, "nonce")
		if c.Check(TransportMCP) != nil {
			t.Skip("a text JSON cannot hold")
		}
		result, metadata := map[string]any{}, map[string]any{}
		meta := map[string]any{}
		if err := c.ToMCP(meta); err != nil {
			t.Fatal(err)
		}
		result["_meta"] = meta
		if err := ToA2A(metadata, []Carrier{*c}); err != nil {
			t.Fatal(err)
		}
		fromMCP, err := FromMCP(decoded(t, result))
		if diff := cmp.Diff([]Carrier{*c}, fromMCP); diff != "" || err != nil {
			t.Fatal(diff, err)
		}
		fromA2A, err := FromA2A(decoded(t, metadata))
		if diff := cmp.Diff([]Carrier{*c}, fromA2A); diff != "" || err != nil {
			t.Fatal(diff, err)
		}
	})
}

// decoded is the value as a reader of its JSON has it.
func decoded(t interface{ Fatal(...any) }, value map[string]any) (back map[string]any) {
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, &back)
	}
	if err != nil {
		t.Fatal(err)
	}
	return back
}
