package discovery

import (
	"runtime"
	"strings"
	"testing"
)

// allocated is how many bytes f asks for.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestParse_memoryDoesNotGrowWithTheSquareOfADocument(t *testing.T) {
	half := MaxIssuer / 2
	row := "[" + strings.Repeat("0,", 999) + "0]"
	rows := strings.Repeat(row+",", half/len(row)-1) + row
	data := []byte(`{"` + strings.Repeat("k", half) + `":[` + rows + `]}`)
	for name, parse := range map[string]func() error{
		"policy":       func() error { _, err := ParsePolicy(data, "application/json"); return err },
		"issuer":       func() error { _, err := ParseIssuer(data); return err },
		"capabilities": func() error { _, err := ParseCapabilities(data); return err },
	} {
		if got := allocated(func() { _ = parse() }); got > 128*uint64(len(data)) {
			t.Errorf("%s: %d bytes asked for to read %d", name, got, len(data))
		}
	}
}

func TestParse_namesThePlaceOfWhatIsBeyondALimit(t *testing.T) {
	for in, want := range map[string]string{
		`{"a/b":[0,[{"c~d":"` + strings.Repeat("x", issuerLimits.text+1) + `"}]]}`: `"/a~1b/1/0/c~0d"`,
		`{"a":[[0],[[[0]]]]}`: `"/a/1/0/0"`,
		`{"a":{"b":[` + strings.Repeat("0,", issuerLimits.items) + `0]}}`: `"/a/b"`,
	} {
		_, err := ParseIssuer([]byte(in))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v, want %s", in, err, want)
		}
	}
}
