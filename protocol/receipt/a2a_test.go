package receipt

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/protocol/canonical"
)

func a2aMetadata(payload any) map[string]any { return map[string]any{ExtensionURI: payload} }

func wireCarrier() map[string]any {
	return map[string]any{"receipt_ref": sampleRef(), "receipt_jws": sampleJWS}
}

func TestFromA2A_readsEveryCarrier(t *testing.T) {
	reference := map[string]any{"receipt_ref": sampleRef(), "later": true}
	got, err := FromA2A(a2aMetadata(map[string]any{
		"carriers": []any{wireCarrier(), reference},
		"meta":     map[string]any{"transport": "a2a", "format": "embed", "max_size": 65536.0},
	}))
	if diff := cmp.Diff([]Carrier{*NewCarrier(sampleJWS), {ReceiptRef: sampleRef()}}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got, err := FromA2A(map[string]any{"https://example.org/other": 1}); got != nil || err != nil {
		t.Errorf("without the extension: %v, %v", got, err)
	}
}

func TestFromA2A_refusesAndSaysWhere(t *testing.T) {
	at := "/" + strings.ReplaceAll(ExtensionURI, "/", "~1")
	exchanged := wireCarrier()
	exchanged["receipt_jws"] = "a2V5.a2V5.a2V5"
	for name, c := range map[string]struct {
		payload any
		pointer string
	}{
		"no object":            {"x", at},
		"no carriers":          {map[string]any{}, at + "/carriers"},
		"carriers no array":    {map[string]any{"carriers": wireCarrier()}, at + "/carriers"},
		"too many":             {map[string]any{"carriers": make([]any, maxCarriers+1)}, at + "/carriers"},
		"a carrier no object":  {map[string]any{"carriers": []any{"x"}}, at + "/carriers/0"},
		"the second one bad":   {map[string]any{"carriers": []any{wireCarrier(), map[string]any{"receipt_ref": 1.0}}}, at + "/carriers/1/receipt_ref"},
		"an exchanged receipt": {map[string]any{"carriers": []any{exchanged}}, at + "/carriers/0/receipt_ref"},
		"meta no object":       {map[string]any{"carriers": []any{}, "meta": 1.0}, at + "/meta"},
		"unknown format":       {map[string]any{"carriers": []any{}, "meta": map[string]any{"format": "other"}}, at + "/meta/format"},
		"format no text":       {map[string]any{"carriers": []any{}, "meta": map[string]any{"format": []any{}}}, at + "/meta/format"},
		"receipt in reference": {map[string]any{"carriers": []any{wireCarrier()}, "meta": map[string]any{"format": "reference"}}, at + "/carriers/0/receipt_jws"},
	} {
		_, err := FromA2A(a2aMetadata(c.payload))
		refusal, ok := err.(*Error)
		if !ok || refusal.Code != CodeInvalidFormat || refusal.Pointer != c.pointer {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestToA2A_writesBetweenOneAndTheMost(t *testing.T) {
	metadata := map[string]any{"kept": 1}
	wantCode(t, ToA2A(metadata, nil), CodeInvalidFormat)
	wantCode(t, ToA2A(metadata, make([]Carrier, maxCarriers+1)), CodeInvalidFormat)
	if err := ToA2A(metadata, []Carrier{*NewCarrier(sampleJWS)}); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"kept": 1, ExtensionURI: map[string]any{"carriers": []any{wireCarrier()}}}
	if diff := cmp.Diff(want, metadata); diff != "" {
		t.Error(diff)
	}
}

func TestNamesExtension_findsTheURIAmongOthers(t *testing.T) {
	for value, want := range map[string]bool{
		ExtensionURI: true,
		"https://example.org/a,\t" + ExtensionURI + " , https://example.org/b": true,
		ExtensionURI + "/more": false, "": false, strings.ToUpper(ExtensionURI): false,
	} {
		if got := NamesExtension([]string{"x", value}); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}

const issuerConfig = "https://agent.example/.well-known/peac-issuer.json"

func agentCard(t *testing.T, extensions ...any) []byte {
	t.Helper()
	data, err := canonical.Marshal(map[string]any{
		"name":                "An agent",
		"supportedInterfaces": []any{map[string]any{"url": "https://agent.example", "protocolBinding": "JSONRPC"}},
		"capabilities":        map[string]any{"streaming": true, "extensions": extensions},
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestReadExtension_findsTheEntryThatNewExtensionMakes(t *testing.T) {
	want, err := NewExtension(issuerConfig)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadExtension(agentCard(t, map[string]any{"uri": "https://example.org/x", "params": "of another kind"}, want))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got, err := ReadExtension(agentCard(t, map[string]any{"uri": "https://example.org/x"})); got != nil || err != nil {
		t.Errorf("without the entry: %v, %v", got, err)
	}
	_, err = NewExtension("http://agent.example/.well-known/peac-issuer.json")
	wantCode(t, err, CodeInvalidFormat)
}

func TestReadExtension_refusesCardsOfOlderVersionsAndBadEntries(t *testing.T) {
	entry := map[string]any{"uri": ExtensionURI, "required": false}
	withParams := func(params any) map[string]any {
		return map[string]any{"uri": ExtensionURI, "required": false, "params": params}
	}
	for name, card := range map[string]string{
		"no JSON":            `x`,
		"no interfaces":      `{"url":"https://agent.example","capabilities":{"extensions":[]}}`,
		"no interface":       `{"supportedInterfaces":[]}`,
		"no URL":             `{"supportedInterfaces":[{"protocolBinding":"JSONRPC"}]}`,
		"URL no text":        `{"supportedInterfaces":[{"url":1}]}`,
		"relative URL":       `{"supportedInterfaces":[{"url":"/a2a"}]}`,
		"other spelling":     `{"SupportedInterfaces":[{"url":"https://agent.example"}]}`,
		"extensions no list": `{"supportedInterfaces":[{"url":"https://agent.example"}],"capabilities":{"extensions":{}}}`,
		"extension no entry": string(agentCard(t, "x")),
		"twice":              string(agentCard(t, entry, entry)),
		"params no object":   string(agentCard(t, withParams("x"))),
		"config without TLS": string(agentCard(t, withParams(map[string]any{"issuer_config_url": "http://agent.example"}))),
		"kinds no list":      string(agentCard(t, withParams(map[string]any{"supported_kinds": "x"}))),
		"an empty format":    string(agentCard(t, withParams(map[string]any{"carrier_formats": []string{""}}))),
		"too many kinds":     string(agentCard(t, withParams(map[string]any{"supported_kinds": make([]int, maxCapabilities+1)}))),
	} {
		if got, err := ReadExtension([]byte(card)); CodeOf(err) != CodeInvalidFormat || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	_, err := ReadExtension(make([]byte, MaxAgentCard+1))
	wantCode(t, err, CodePayloadTooLarge)
}
