package wellknown

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/parleykit/parley/protocol/canonical"
)

// newSeedKey is an Ed25519 key made from a fixed seed.
func newSeedKey(b byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, ed25519.SeedSize))
}

func document() Document {
	return Document{
		Origin:   "https://parley.example",
		Name:     "Example",
		Relay:    "wss://parley.example/",
		Venue:    &Venue{PubKey: strings.Repeat("ab", 32), Profiles: []string{"parley/1"}},
		Receipts: &Receipts{Issuer: "https://parley.example", LogKey: "parley.example/receipts/log+00000000+AQ=="},
		IssuedAt: canonical.At(time.Unix(1_790_000_000, 0)),
	}
}

func TestASignedDocumentOpensAndNamesItsKey(t *testing.T) {
	data, err := Sign(document(), newSeedKey(1))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := Open(data)
	if err != nil {
		t.Fatal(err)
	}
	if doc.Venue == nil || doc.Venue.PubKey != document().Venue.PubKey {
		t.Errorf("venue = %+v", doc.Venue)
	}
	other, err := Sign(document(), newSeedKey(2))
	if err != nil {
		t.Fatal(err)
	}
	otherDoc, err := Open(other)
	if err != nil {
		t.Fatal(err)
	}
	if doc.Fingerprint() == otherDoc.Fingerprint() {
		t.Error("two server keys have one fingerprint")
	}
}

func TestAnyChangedByteIsRefused(t *testing.T) {
	data, err := Sign(document(), newSeedKey(1))
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		changed := bytes.Clone(data)
		changed[i] ^= 1
		if doc, err := Open(changed); err == nil {
			t.Fatalf("byte %d changed to %q is accepted: %+v", i, changed[i], doc)
		}
	}
}

func TestMalformedDocumentsAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Document){
		"origin with a path":   func(d *Document) { d.Origin += "/x" },
		"origin without host":  func(d *Document) { d.Origin = "https://" },
		"relay over http":      func(d *Document) { d.Relay = "https://parley.example/" },
		"relay with a secret":  func(d *Document) { d.Relay = "wss://a:b@parley.example/" },
		"venue without key":    func(d *Document) { d.Venue = &Venue{} },
		"receipts of nobody":   func(d *Document) { d.Receipts.Issuer = "" },
		"log key in two lines": func(d *Document) { d.Receipts.LogKey += "\n" },
		"endless name":         func(d *Document) { d.Name = strings.Repeat("a", 101) },
		"without a time":       func(d *Document) { d.IssuedAt = canonical.Time{} },
		"upper-case venue key": func(d *Document) { d.Venue.PubKey = strings.ToUpper(d.Venue.PubKey) },
	} {
		t.Run(name, func(t *testing.T) {
			doc := document()
			change(&doc)
			if _, err := Sign(doc, newSeedKey(1)); !errors.Is(err, ErrMalformed) {
				t.Errorf("Sign = %v, want ErrMalformed", err)
			}
		})
	}
	if _, err := Open(bytes.Repeat([]byte(" "), MaxSize+1)); !errors.Is(err, ErrMalformed) {
		t.Errorf("oversized: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	data, err := Sign(document(), newSeedKey(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"document":{},"signature":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if doc, err := Open(data); err == nil && doc.publicKey() == nil {
			t.Error("accepted without a key")
		}
	})
}

func TestAServerWithoutAVenueHasADocumentThatOpens(t *testing.T) {
	doc := document()
	doc.Venue = nil
	data, err := Sign(doc, newSeedKey(1))
	if err != nil {
		t.Fatal(err)
	}
	if opened, err := Open(data); err != nil || opened.Venue != nil {
		t.Errorf("opened %+v, %v", opened, err)
	}
}
