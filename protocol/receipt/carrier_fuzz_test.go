package receipt

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzCarrier hands the same bytes to every place a carrier is read from. What
// is taken must be refused by no writer of the same transport, apart from the
// narrower limits of writing, and must name its receipt truly.
func FuzzCarrier(f *testing.F) {
	full, _ := json.Marshal(fullCarrier())
	f.Add(full, sampleJWS, "https://receipts.example/1")
	f.Add([]byte(`{"_meta":{"org.peacprotocol/receipt":"`+sampleJWS+`"},"peac_receipt":1}`), sampleRef(), "")
	f.Add([]byte(`{"`+ExtensionURI+`":{"carriers":[{"receipt_ref":"`+sampleRef()+`"}],"meta":{"format":"reference"}}}`), "a.b.c", "https://a@b")
	f.Add([]byte(`{"supportedInterfaces":[{"url":"https://a.example"}],"capabilities":{"extensions":[{"uri":"`+ExtensionURI+`"}]}}`), "", "x")
	f.Fuzz(func(t *testing.T, data []byte, jws, url string) {
		if c, err := ParseCarrier(data); err == nil {
			checkTaken(t, []Carrier{*c}, TransportBody)
		}
		var decoded map[string]any
		if json.Unmarshal(data, &decoded) == nil {
			fromMCP, _ := FromMCP(decoded)
			checkTaken(t, fromMCP, TransportMCP)
			fromA2A, _ := FromA2A(decoded)
			checkTaken(t, fromA2A, TransportA2A)
		}
		fromHTTP, _ := FromHTTP([]string{jws}, []string{url})
		checkTaken(t, fromHTTP, TransportHTTP)
		fromGRPC, _ := FromGRPC(map[string][]string{MetadataReceipt: {jws}})
		checkTaken(t, fromGRPC, TransportGRPC)
		if extension, err := ReadExtension(data); err == nil && extension != nil && extension.URI != ExtensionURI {
			t.Fatalf("another extension: %v", extension)
		}
	})
}

func checkTaken(t *testing.T, carriers []Carrier, transport Transport) {
	for _, c := range carriers {
		if err := c.checkWritten(transport); err != nil && CodeOf(err) != CodeConstraint {
			t.Fatalf("%s took %+v: %v", transport, c, err)
		}
		if c.ReceiptJWS != "" && c.CheckFetched(c.ReceiptJWS) != nil && len(c.ReceiptJWS) <= maxPointerBody {
			t.Fatalf("%s took an exchanged receipt", transport)
		}
	}
}

func FuzzPurpose(f *testing.F) {
	f.Add("train, Search,cf:ai_crawler", "index")
	f.Add(" ,, undeclared", "a-b:c-d")
	f.Add("İ,K", "\xff")
	f.Fuzz(func(t *testing.T, first, second string) {
		tokens, err := ParsePurpose([]string{first, second})
		if err != nil {
			if tokens != nil || len(err.Error()) > 300 {
				t.Fatalf("%v, %v", tokens, err)
			}
			return
		}
		again, err := ParsePurpose([]string{strings.Join(tokens, ", ")})
		if diff := cmp.Diff(tokens, again); diff != "" || err != nil {
			t.Fatal(diff, err)
		}
		for _, token := range tokens {
			if !IsPurpose(token) || strings.ToLower(token) != token {
				t.Fatalf("%q is no purpose", token)
			}
		}
	})
}
