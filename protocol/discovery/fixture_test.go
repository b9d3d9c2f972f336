package discovery

import (
	"crypto/ed25519"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/parleykit/parley/protocol/receipt"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// testKey is the same key for the same number.
func testKey(id string, number byte) Key {
	seed := [ed25519.SeedSize]byte{number}
	return Key{ID: id, Public: ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey)}
}

func wantCode(t *testing.T, err error, code receipt.Code) {
	t.Helper()
	if receipt.CodeOf(err) != code {
		t.Errorf("got %v, want %q", err, code)
	}
}

// issuerCase is one case of the published data.
type issuerCase struct {
	ID       string
	Input    json.RawMessage
	InputRaw string `json:"input_raw"`
	Context  struct {
		Iss  string `json:"receipt_iss"`
		Iss1 string `json:"receipt_iss_1"`
		Iss2 string `json:"receipt_iss_2"`
	}
	Expected struct {
		Valid        *bool
		ValidParse   *bool        `json:"valid_parse"`
		Code         receipt.Code `json:"error_code"`
		Origin       string       `json:"canonical_origin"`
		ConfigURL    string       `json:"config_url"`
		SameCacheKey bool         `json:"same_cache_key"`
		Algorithms   []string
	}
}

func (c issuerCase) document() []byte {
	if c.InputRaw != "" {
		return []byte(c.InputRaw)
	}
	return c.Input
}

func publishedCases(t *testing.T) map[string][]issuerCase {
	t.Helper()
	data, err := os.ReadFile("../../../shared/conformance/peac/discovery/issuer-config.json")
	if err != nil {
		t.Skip("the published test data are not here")
	}
	var set struct{ Fixtures map[string][]issuerCase }
	if err := json.Unmarshal(data, &set); err != nil {
		t.Fatal(err)
	}
	return set.Fixtures
}

func long(n int) string { return strings.Repeat("a", n) }
