package main

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/internal/issuer"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/discovery"
	"github.com/parleykit/parley/protocol/receipt"
)

// Where the key that verifies a receipt comes from.
const (
	sourceDID        = "did:key"    // the issuer is named by its key
	sourcePinned     = "pinned"     // the user named it
	sourceDiscovered = "discovered" // the issuer publishes it
	sourceBundle     = "bundle"     // the bundle brings it along: nobody else vouches for it
)

// keyring is keys that need no looking up.
type keyring struct {
	source string
	only   ed25519.PublicKey // whatever a receipt calls it; nil for set
	set    discovery.KeySet
}

// errNoKey means a receipt whose key nobody named.
var errNoKey = errors.New("no key")

// find is the key of a receipt. An issuer that is named by its key has no
// other: a key under which somebody else signed in its name is refused.
func (k *keyring) find(d *receipt.Decoded) (key ed25519.PublicKey, source string, err error) {
	iss := d.Claims.Issuer
	var own ed25519.PublicKey
	if strings.HasPrefix(iss, "did:") {
		if own, err = receipt.ParseDIDKey(iss); err != nil {
			return nil, "", err
		}
	}
	found := k.only != nil
	switch key = k.only; {
	case k.set != nil:
		key, found = k.set.Find(d.KeyID)
	case !found && own != nil:
		return own, sourceDID, nil
	case !found:
		return nil, "", errNoKey
	}
	switch {
	case !found:
		return nil, "", &receipt.Error{Code: receipt.CodeKeyNotFound, Detail: "the receipt names a key that is not among the given ones"}
	case own != nil && !own.Equal(key):
		return nil, "", &receipt.Error{Code: receipt.CodeKeyNotFound, Pointer: "/iss", Detail: "the issuer is named by another key than the given one"}
	}
	if own != nil && k.source == sourceBundle {
		return key, sourceDID, nil
	}
	return key, k.source, nil
}

// pinnedKeys reads what --key says: a key itself or a file with one or more.
func pinnedKeys(s *session, text string) (*keyring, error) {
	ring := &keyring{source: sourcePinned}
	var err error
	if ring.only, err = parsePublicKey(text); err == nil {
		return ring, nil
	}
	data, err := readInput(s, text, discovery.MaxKeySet)
	if err != nil {
		return nil, err
	}
	text = strings.TrimSpace(string(data))
	var object struct {
		Keys json.RawMessage `json:"keys"`
		D    json.RawMessage `json:"d"`
		receipt.JWK
	}
	switch {
	case !strings.HasPrefix(text, "{"):
		ring.only, err = parsePublicKey(text)
	case json.Unmarshal(data, &object) != nil:
		err = errors.New("not JSON")
	case object.Keys != nil:
		ring.set, err = discovery.ParseKeySet(data)
	case object.D != nil:
		err = errors.New("it is a secret key; name the public one")
	default:
		ring.only, err = object.PublicKey()
	}
	if err != nil {
		return nil, &agent.Error{
			Code: agent.CodeInvalid, Detail: "--key names no Ed25519 key: " + err.Error(),
			Hint: "give a did:key, 43 characters of base64url, or a file with a JWK or a JWK Set",
		}
	}
	return ring, nil
}

// parsePublicKey reads a key in one of its two short forms.
func parsePublicKey(text string) (ed25519.PublicKey, error) {
	if strings.HasPrefix(text, "did:") {
		return receipt.ParseDIDKey(text)
	}
	return receipt.JWK{KeyType: "OKP", Curve: "Ed25519", X: text}.PublicKey()
}

// bundleKeys are those that a bundle brings along.
func bundleKeys(list []receipt.JWK) (*keyring, error) {
	ring := &keyring{source: sourceBundle, set: discovery.KeySet{}}
	for _, j := range list {
		key, err := j.PublicKey()
		if err != nil {
			return nil, err
		}
		ring.set = append(ring.set, discovery.Key{ID: j.KeyID, Public: key})
	}
	return ring, nil
}

type receiptKeysCmd struct {
	Dir  string `arg:"" help:"Folder of the keys." placeholder:"DIR" type:"path"`
	Make bool   `help:"Make a key where there is none, and the folder too."`
	JWKS bool   `help:"Print the public keys as a JWK Set, for verify --key." name:"jwks"`
}

// Help is printed below the flags.
func (c *receiptKeysCmd) Help() string {
	return `Public keys only are shown: as the key id that receipts name, which is the RFC 7638
thumbprint, as did:key, and with --json as JWK. The secret is in the folder, in a file
of mode 0600. The keys of a server are shown and replaced with parleyd.

Examples:
  parley receipt keys mykeys --make
  parley receipt keys mykeys --jwks > public.json`
}

// receiptKey is one key for people and programs.
type receiptKey struct {
	State keys.State  `json:"state"`
	KeyID string      `json:"kid"`
	DID   string      `json:"did"`
	JWK   receipt.JWK `json:"jwk"`
	File  string      `json:"file"`
}

// Run makes and lists keys.
func (c *receiptKeysCmd) Run(s *session) error {
	dir, err := openReceiptKeys(c.Dir, c.Make)
	if err != nil {
		return err
	}
	list, err := listReceiptKeys(dir)
	if err != nil {
		return err
	}
	if c.JWKS {
		set := make([]receipt.JWK, len(list))
		for i, k := range list {
			set[i] = k.JWK
		}
		return s.json(map[string]any{"keys": set})
	}
	return s.print(map[string]any{"keys": list}, func(p *printer) {
		rows := make([][]string, len(list))
		for i, k := range list {
			rows[i] = []string{string(k.State), k.KeyID, k.DID}
		}
		p.table([]string{"STATE", "KID", "ISSUER"}, rows)
	})
}

// openReceiptKeys opens a folder of keys. Where it may not make one, there
// must be one.
func openReceiptKeys(path string, create bool) (*keys.Dir, error) {
	if _, err := os.Stat(path); !create && errors.Is(err, fs.ErrNotExist) {
		return nil, noReceiptKey(path)
	}
	dir, err := keys.Open(path)
	if err != nil {
		return nil, unusableKeys(err)
	}
	if !create {
		return dir, nil
	}
	if _, err := dir.EnsureEd25519(keys.Issuer); err != nil {
		return nil, unusableKeys(err)
	}
	return dir, nil
}

func noReceiptKey(path string) error {
	return &agent.Error{
		Code: agent.CodeInvalid, Detail: fmt.Sprintf("there is no key of receipts in %s", path),
		Hint: "parley receipt keys DIR --make",
	}
}

func unusableKeys(err error) error {
	return &agent.Error{Code: agent.CodeInvalid, Detail: "the folder of keys cannot be used: " + err.Error()}
}

func listReceiptKeys(dir *keys.Dir) ([]receiptKey, error) {
	files, err := dir.List()
	if err != nil {
		return nil, unusableKeys(err)
	}
	list := []receiptKey{}
	for _, file := range files {
		if file.Purpose != keys.Issuer {
			continue
		}
		key, err := dir.OpenEd25519(file)
		if err != nil {
			return nil, unusableKeys(err)
		}
		public := key.PublicKey()
		list = append(list, receiptKey{file.State, issuer.KeyID(public), receipt.DIDKey(public), receipt.NewJWK(public, ""), file.Path})
	}
	if len(list) == 0 {
		return nil, noReceiptKey(dir.Path())
	}
	return list, nil
}
