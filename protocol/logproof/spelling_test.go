package logproof_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/parleykit/parley/protocol/logproof"
)

// respell changes the bits of a signature line that base64 leaves over.
func respell(t *testing.T, line string) string {
	t.Helper()
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	last := strings.Index(line, "=") - 1
	if last < 0 {
		t.Fatalf("line %q has no bits to spare", line)
	}
	return line[:last] + string(digits[strings.IndexByte(digits, line[last])^1]) + line[last+1:]
}

func TestOpen_takesASignatureInOneSpelling(t *testing.T) {
	log, text := logPair(t), logproof.Checkpoint{Origin: origin, Root: logproof.EmptyRoot}.Text()
	pairs, public := witnesses(t, 1)
	policy := logproof.Policy{Log: log.Key, Witnesses: public}
	line, cosignature := log.sign(t, text), pairs[0].sign(t, text)
	if _, err := logproof.Open(text+"\n"+line+cosignature, policy); err != nil {
		t.Fatal(err)
	}
	for name, lines := range map[string]string{
		"log": respell(t, line) + cosignature, "witness": line + respell(t, cosignature),
	} {
		if _, err := logproof.Open(text+"\n"+lines, policy); !errors.Is(err, logproof.ErrMalformed) {
			t.Errorf("%s: got %v, want ErrMalformed", name, err)
		}
	}
}
