package receipt

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFromMCP_readsTheOlderPlacesAndComputesTheReference(t *testing.T) {
	want := []Carrier{*NewCarrier(sampleJWS)}
	newest := map[string]any{"org.peacprotocol/receipt_ref": sampleRef(), "org.peacprotocol/receipt_jws": sampleJWS}
	for name, result := range map[string]map[string]any{
		"_meta":                  {"_meta": newest},
		"older member of _meta":  {"_meta": map[string]any{"org.peacprotocol/receipt": sampleJWS, "org.peacprotocol/agent_id": 1}},
		"oldest, beside _meta":   {"peac_receipt": sampleJWS, "_meta": map[string]any{}},
		"oldest without _meta":   {"peac_receipt": sampleJWS},
		"the newest decides":     {"_meta": newest, "peac_receipt": "a2V5.a2V5.a2V5"},
		"_meta null, and oldest": {"peac_receipt": sampleJWS, "_meta": nil},
	} {
		got, err := FromMCP(result)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

func TestFromMCP_refusesWhatItCannotRead(t *testing.T) {
	for name, result := range map[string]map[string]any{
		"_meta no object":        {"_meta": "x"},
		"reference no text":      {"_meta": map[string]any{"org.peacprotocol/receipt_ref": 1.0}},
		"receipt, no reference":  {"_meta": map[string]any{"org.peacprotocol/receipt_jws": sampleJWS}},
		"exchanged receipt":      {"_meta": map[string]any{"org.peacprotocol/receipt_ref": sampleRef(), "org.peacprotocol/receipt_jws": "a2V5.a2V5.a2V5"}},
		"older member no text":   {"_meta": map[string]any{"org.peacprotocol/receipt": true}},
		"older member a ref":     {"_meta": map[string]any{"org.peacprotocol/receipt": sampleRef()}},
		"oldest no text":         {"peac_receipt": map[string]any{}},
		"oldest empty":           {"peac_receipt": ""},
		"a bad one hides no old": {"_meta": map[string]any{"org.peacprotocol/receipt_ref": "x"}, "peac_receipt": sampleJWS},
	} {
		if got, err := FromMCP(result); CodeOf(err) != CodeInvalidFormat || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, result := range []map[string]any{nil, {}, {"_meta": map[string]any{"other": 1}}} {
		if got, err := FromMCP(result); got != nil || err != nil {
			t.Errorf("%v: %v, %v", result, got, err)
		}
	}
}

func TestToMCP_writesNoNameThatTheProtocolKeepsForItself(t *testing.T) {
	meta := map[string]any{"kept": 1}
	if err := fullCarrier().ToMCP(meta); err != nil {
		t.Fatal(err)
	}
	if len(meta) != 11 || meta["kept"] != 1 {
		t.Errorf("got %v", meta)
	}
	for name := range meta {
		prefix, _, found := strings.Cut(name, "/")
		if labels := strings.Split(prefix, "."); found && (labels[1] == "mcp" || labels[1] == "modelcontextprotocol") {
			t.Errorf("%s is reserved", name)
		}
	}
}

func TestFromHTTP_takesTheReceiptAndNeverAReference(t *testing.T) {
	got, err := FromHTTP([]string{sampleJWS}, []string{"https://receipts.example/1"})
	want := NewCarrier(sampleJWS)
	want.ReceiptURL = "https://receipts.example/1"
	if diff := cmp.Diff([]Carrier{*want}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got, err := FromHTTP(nil, nil); got != nil || err != nil {
		t.Errorf("no fields: %v, %v", got, err)
	}
	for name, c := range map[string]struct {
		receipts, urls []string
		code           Code
	}{
		"a bare reference":  {[]string{sampleRef()}, nil, CodeVerifyInvalidTransport},
		"two receipts":      {[]string{sampleJWS, sampleJWS}, nil, CodeVerifyInvalidTransport},
		"a URL alone":       {nil, []string{"https://receipts.example/1"}, CodeVerifyInvalidTransport},
		"two URLs":          {[]string{sampleJWS}, []string{"https://a.example", "https://b.example"}, CodeVerifyInvalidTransport},
		"a URL without TLS": {[]string{sampleJWS}, []string{"http://receipts.example/1"}, CodeInvalidFormat},
		"an empty URL":      {[]string{sampleJWS}, []string{""}, CodeInvalidFormat},
		"an empty field":    {[]string{""}, nil, CodeInvalidFormat},
		"JSON":              {[]string{`{"receipt_ref":"` + sampleRef() + `"}`}, nil, CodeInvalidFormat},
		"two in one field":  {[]string{sampleJWS + ", " + sampleJWS}, nil, CodeInvalidFormat},
		"too large":         {[]string{strings.Repeat("a2V5", 4<<10) + ".a2V5.a2V5"}, nil, CodeVerifyReceiptTooLarge},
	} {
		if got, err := FromHTTP(c.receipts, c.urls); CodeOf(err) != c.code || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestToHTTP_writesFieldsThatNetHTTPFindsAgain(t *testing.T) {
	fields, err := fullCarrier().ToHTTP()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(fields, []HeaderField{{"PEAC-Receipt", sampleJWS}, {"PEAC-Receipt-URL", "https://receipts.example/r/1"}}) {
		t.Errorf("got %v", fields)
	}
	received := http.Header{}
	for _, f := range fields {
		received.Add(f.Name, f.Value) // as a server has them
	}
	got, err := FromHTTP(received.Values(HeaderReceipt), received.Values(HeaderReceiptURL))
	if err != nil || len(got) != 1 || got[0].ReceiptJWS != sampleJWS || got[0].ReceiptURL == "" {
		t.Errorf("got %v, %v", got, err)
	}
	reference := &Carrier{ReceiptRef: sampleRef()}
	_, err = reference.ToHTTP()
	wantCode(t, err, CodeVerifyInvalidTransport)
	_, err = reference.ToGRPC()
	wantCode(t, err, CodeVerifyInvalidTransport)
}

func TestGRPC_returnsTheReceiptAndRefusesBinaryMetadata(t *testing.T) {
	metadata, err := NewCarrier(sampleJWS).ToGRPC()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]string{"peac-receipt": {sampleJWS}, "peac-receipt-type": {"interaction-record+jwt"}}, metadata); diff != "" {
		t.Error(diff)
	}
	got, err := FromGRPC(metadata)
	if diff := cmp.Diff([]Carrier{*NewCarrier(sampleJWS)}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got, err := FromGRPC(map[string][]string{"other": {"x"}}); got != nil || err != nil {
		t.Errorf("no receipt: %v, %v", got, err)
	}
	if got, err := FromGRPC(map[string][]string{"peac-receipt": {sampleJWS}}); len(got) != 1 || err != nil {
		t.Errorf("no type: %v, %v", got, err)
	}
	for name, c := range map[string]struct {
		metadata map[string][]string
		code     Code
	}{
		"binary":            {map[string][]string{"peac-receipt-bin": {sampleJWS}}, CodeVerifyInvalidTransport},
		"binary beside":     {map[string][]string{"peac-receipt": {sampleJWS}, "Peac-Receipt-Bin": {"x"}}, CodeVerifyInvalidTransport},
		"binary type":       {map[string][]string{"peac-receipt": {sampleJWS}, "peac-receipt-type-bin": {"x"}}, CodeVerifyInvalidTransport},
		"two receipts":      {map[string][]string{"peac-receipt": {sampleJWS, sampleJWS}}, CodeVerifyInvalidTransport},
		"a bare reference":  {map[string][]string{"peac-receipt": {sampleRef()}}, CodeVerifyInvalidTransport},
		"an older version":  {map[string][]string{"peac-receipt": {sampleJWS}, "peac-receipt-type": {"peac-receipt/0.1"}}, CodeUnsupportedWireVersion},
		"something else":    {map[string][]string{"peac-receipt": {"x"}}, CodeInvalidFormat},
		"an empty value":    {map[string][]string{"peac-receipt": {""}}, CodeInvalidFormat},
		"larger than 8 KiB": {map[string][]string{"peac-receipt": {strings.Repeat("a2V5", 4<<10) + ".a2V5.a2V5"}}, CodeVerifyReceiptTooLarge},
	} {
		if got, err := FromGRPC(c.metadata); CodeOf(err) != c.code || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
