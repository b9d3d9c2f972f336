package keys

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The vectors of NIP-19.
const (
	vectorHex    = "3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d"
	vectorNPub   = "npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6"
	vectorSecret = "67dea2ed018072d675f5415ecfaed7d2597555e202d85b3d65ea4e58d2d92ffa"
	vectorNSec   = "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5"
	vectorPublic = "7e7e9c42a91bfef19fa929e5fda1b72e0ebc1a4c1141673e2794234d86addf4e"
)

func TestNIP19_agreesWithThePublishedVectors(t *testing.T) {
	if got := encodeNIP19(prefixPublic, vectorHex); got != vectorNPub {
		t.Errorf("npub = %s", got)
	}
	if got := encodeNIP19(prefixSecret, vectorSecret); got != vectorNSec {
		t.Errorf("nsec = %s", got)
	}
	if got, err := ParsePublic(vectorNPub); err != nil || got != vectorHex {
		t.Errorf("ParsePublic = %s, %v", got, err)
	}
	if got, err := ParsePublic(strings.ToUpper(vectorNPub)); err != nil || got != vectorHex {
		t.Errorf("ParsePublic in upper case = %s, %v", got, err)
	}
	key, err := ParseNostr(vectorNSec)
	if err != nil || key.PublicKey() != vectorPublic {
		t.Errorf("ParseNostr = %v, %v", key, err)
	}
}

func TestNIP19_anyChangedCharacterIsRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "raw")
		text := encodeNIP19(prefixPublic, hex.EncodeToString(raw))
		if got, err := decodeNIP19(prefixPublic, text); err != nil || got != hex.EncodeToString(raw) {
			t.Fatalf("round trip of %s: %s, %v", text, got, err)
		}
		at := rapid.IntRange(len("npub1"), len(text)-1).Draw(t, "at")
		other := rapid.SampledFrom([]byte(charset)).Draw(t, "other")
		if text[at] == other {
			return
		}
		changed := text[:at] + string(other) + text[at+1:]
		if got, err := decodeNIP19(prefixPublic, changed); !errors.Is(err, ErrMalformed) {
			t.Fatalf("changed text decodes to %s, %v", got, err)
		}
	})
}

func TestParsePublic_refusesWhatIsNoKey(t *testing.T) {
	for name, text := range map[string]string{
		"empty":          "",
		"secret":         vectorNSec,
		"short":          vectorHex[1:],
		"not hex":        strings.Repeat("z", 64),
		"not on curve":   strings.Repeat("0", 63) + "5",
		"mixed case":     "nPUB1" + vectorNPub[5:],
		"endless":        strings.Repeat("a", 1<<20),
		"wrong checksum": vectorNPub[:len(vectorNPub)-1] + "q",
		"other alphabet": vectorNPub[:len(vectorNPub)-1] + "b",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := ParsePublic(text); !errors.Is(err, ErrMalformed) {
				t.Errorf("ParsePublic = %s, %v", got, err)
			}
		})
	}
}

func FuzzParsePublic(f *testing.F) {
	for _, seed := range []string{vectorNPub, vectorHex, vectorNSec, "npub1", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		public, err := ParsePublic(text)
		if err != nil {
			return
		}
		if again, err := ParsePublic(encodeNIP19(prefixPublic, public)); err != nil || again != public {
			t.Errorf("%q does not survive its npub: %s, %v", text, again, err)
		}
	})
}

func FuzzParseNostr(f *testing.F) {
	for _, seed := range []string{vectorNSec, vectorSecret, groupOrder, "nsec1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := ParseNostr(text)
		if err != nil {
			if len(text) > 16 && strings.Contains(err.Error(), text) {
				t.Errorf("error shows the input: %v", err)
			}
			return
		}
		if len(key.PublicKey()) != 64 {
			t.Errorf("public key %q", key.PublicKey())
		}
	})
}
