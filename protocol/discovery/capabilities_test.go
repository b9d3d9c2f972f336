package discovery

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/protocol/receipt"
)

func TestCapabilities_returnAsTheyWere(t *testing.T) {
	want := &receipt.Capabilities{
		SupportedKinds:  []string{"interaction-record+jwt"},
		CarrierFormats:  []string{receipt.FormatEmbed, receipt.FormatReference},
		IssuerConfigURL: origin + IssuerPath,
	}
	data, err := EncodeCapabilities(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseCapabilities(data)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	got, err = ParseCapabilities([]byte(`{"jwks_uri":"https://a.example/keys"}`))
	if diff := cmp.Diff(&receipt.Capabilities{SupportedKinds: []string{"interaction-record+jwt"}}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestParseCapabilities_refusesWhatIsNone(t *testing.T) {
	for name, document := range map[string]string{
		"nothing":          ``,
		"an array":         `[]`,
		"kinds no list":    `{"supported_kinds":"a"}`,
		"kinds empty text": `{"supported_kinds":[""]}`,
		"format too long":  `{"carrier_formats":["` + long(257) + `"]}`,
		"URL without TLS":  `{"issuer_config_url":"http://a.example"}`,
		"a name twice":     `{"later":1,"later":2}`,
	} {
		if got, err := ParseCapabilities([]byte(document)); receipt.CodeOf(err) != receipt.CodeInvalidFormat || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	_, err := ParseCapabilities(make([]byte, MaxCapabilities+1))
	wantCode(t, err, receipt.CodePayloadTooLarge)
	_, err = EncodeCapabilities(&receipt.Capabilities{IssuerConfigURL: "ftp://a.example"})
	wantCode(t, err, receipt.CodeInvalidFormat)
}

func FuzzCapabilities(f *testing.F) {
	f.Add([]byte(`{"supported_kinds":["a"],"carrier_formats":["embed"],"issuer_config_url":"https://a.example/x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseCapabilities(data)
		if err != nil {
			return
		}
		written, err := EncodeCapabilities(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseCapabilities(written)
		if err != nil || again.IssuerConfigURL != c.IssuerConfigURL || len(again.SupportedKinds) == 0 {
			t.Fatalf("%v became %v, %v", c, again, err)
		}
	})
}
