package keys

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

func TestSign_makesAnEventThatVerifies(t *testing.T) {
	key := mustParse(t, vectorNSec)
	ev := nostr.Event{Kind: 1, CreatedAt: 1700000000, Content: "hello"}
	if err := key.Sign(&ev); err != nil {
		t.Fatal(err)
	}
	if ok, err := ev.CheckSignature(); err != nil || !ok || ev.PubKey != vectorPublic || !ev.CheckID() {
		t.Errorf("signature %v, %v on %v", ok, err, ev)
	}
}

func TestSign_refusesAnEventOfAnotherKey(t *testing.T) {
	ev := nostr.Event{PubKey: vectorHex}
	if err := mustParse(t, vectorNSec).Sign(&ev); err == nil || ev.Sig != "" {
		t.Errorf("signed as %s: %v", ev.PubKey, err)
	}
}

func TestConversationKey_isTheSameOnBothSides(t *testing.T) {
	a, b := mustParse(t, vectorNSec), mustParse(t, strings.Repeat("1", 64))
	ab, err := a.ConversationKey(b.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	ba, err := b.ConversationKey(a.PublicKey())
	if err != nil || ab != ba || ab == [32]byte{} {
		t.Errorf("%x and %x, %v", ab, ba, err)
	}
}

func TestConversationKey_agreesWithNIP44(t *testing.T) {
	// First vector of get_conversation_key in the vectors of NIP-44.
	key := mustParse(t, "315e59ff51cb9209768cf7da80791ddcaae56ac9775eb25b6dee1234bc5d2268")
	got, err := key.ConversationKey("c2f9d9948dc8c7c38321e4b85c8558872eafa0641cd269db76848a6073e69133")
	if want := "3dfef0ce2a4d80a25e7a328accf73448ef67096f65f79588e358d9a0eb9013f1"; err != nil || fmt.Sprintf("%x", got) != want {
		t.Errorf("conversation key %x, %v", got, err)
	}
}

func TestConversationKey_refusesAPeerThatIsNoKey(t *testing.T) {
	key := mustParse(t, vectorNSec)
	for _, peer := range []string{"", "zz", strings.Repeat("0", 64), strings.ToUpper(vectorHex), vectorHex + "00"} {
		if _, err := key.ConversationKey(peer); !errors.Is(err, ErrMalformed) {
			t.Errorf("peer %q: %v", peer, err)
		}
	}
}

func TestEd25519_survivesItsFile(t *testing.T) {
	dir := openDir(t)
	first, err := dir.EnsureEd25519(Issuer)
	if err != nil {
		t.Fatal(err)
	}
	again, err := dir.EnsureEd25519(Issuer)
	if err != nil || !first.PublicKey().Equal(again.PublicKey()) {
		t.Fatalf("%v, %v", again, err)
	}
	message := []byte("message")
	signature, err := again.Sign(nil, message, crypto.Hash(0))
	if err != nil || !ed25519.Verify(first.Public().(ed25519.PublicKey), message, signature) {
		t.Errorf("signature does not verify: %v", err)
	}
}

func TestEd25519_refusesOtherFiles(t *testing.T) {
	dir := openDir(t)
	key, err := dir.EnsureEd25519(Issuer)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir.Path(), "issuer."+key.KID())
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"nsec":       vectorNSec,
		"label":      strings.ReplaceAll(string(good), "PRIVATE", "PUBLIC"),
		"trailing":   string(good) + "x",
		"broken DER": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := dir.Ed25519(Issuer); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Rename(path, filepath.Join(dir.Path(), "issuer.00000000")); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Nostr(Issuer); !errors.Is(err, ErrMalformed) {
		t.Errorf("opened as Nostr key: %v", err)
	}
}

// TestSecrets_areNeverPrinted tries every way a value reaches a text.
func TestSecrets_areNeverPrinted(t *testing.T) {
	nostrKey := mustParse(t, vectorNSec)
	edKey, err := openDir(t).EnsureEd25519(Issuer)
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{vectorNSec, vectorSecret, fmt.Sprintf("%x", []byte(edKey.secret())[:32]), fmt.Sprint([]byte(edKey.secret())[:32])[1:40]}
	type holder struct {
		Public  any
		private Nostr
		pointer *Nostr
		ed      Ed25519
	}
	for _, value := range []any{
		nostrKey, *nostrKey, edKey, *edKey,
		holder{nostrKey, *nostrKey, nostrKey, *edKey},
		&holder{*edKey, *nostrKey, nostrKey, *edKey},
		[]Nostr{*nostrKey},
		map[string]*Ed25519{"k": edKey},
		fmt.Errorf("using %v", nostrKey),
	} {
		var text strings.Builder
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			fmt.Fprintf(&text, verb+"\n", value)
		}
		var logged bytes.Buffer
		slog.New(slog.NewTextHandler(&logged, nil)).Info("key", "key", value)
		slog.New(slog.NewJSONHandler(&logged, nil)).Info("key", "key", value)
		encoded, _ := json.Marshal(value)
		all := strings.ToLower(text.String() + logged.String() + string(encoded))
		for _, secret := range secrets {
			if strings.Contains(all, secret) {
				t.Errorf("%T shows a secret:\n%s", value, all)
			}
		}
	}
	if got := fmt.Sprint(nostrKey); got != nostrKey.NPub() {
		t.Errorf("printed as %s", got)
	}
}
