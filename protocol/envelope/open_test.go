package envelope

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

const (
	digest   = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
	newlines = 132 // shortest payload go-nostr looks at
)

// refusals is every check of Open, broken alone.
var refusals = map[string]struct {
	want  error
	forge func(*forgery)
}{
	"wrap is too large":           {ErrTooLarge, func(f *forgery) { f.bytesWrap = func(s string) string { return s + strings.Repeat(" ", EventLimit) } }},
	"wrap is nothing":             {ErrMalformed, func(f *forgery) { f.bytesWrap = constant("") }},
	"wrap is null":                {ErrMalformed, func(f *forgery) { f.bytesWrap = constant("null") }},
	"wrap is deep":                {ErrMalformed, func(f *forgery) { f.bytesWrap = constant(strings.Repeat(`{"a":`, 10_000)) }},
	"wrap has a space":            {ErrMalformed, func(f *forgery) { f.bytesWrap = replace(`,"kind"`, `, "kind"`) }},
	"wrap ends in a newline":      {ErrMalformed, func(f *forgery) { f.bytesWrap = func(s string) string { return s + "\n" } }},
	"wrap in another key order":   {ErrMalformed, func(f *forgery) { f.bytesWrap = otherOrder }},
	"wrap with an unknown key":    {ErrMalformed, func(f *forgery) { f.bytesWrap = replace(`{`, `{"x":1,`) }},
	"wrap with a key twice":       {ErrMalformed, func(f *forgery) { f.bytesWrap = replace(`"kind":1059`, `"kind":1059,"kind":1059`) }},
	"wrap with an escaped letter": {ErrMalformed, func(f *forgery) { f.bytesWrap = replace(`"content":"A`, `"content":"\u0041`) }},
	"wrap kind as 1059.0":         {ErrMalformed, func(f *forgery) { f.bytesWrap = replace(`1059`, `1059.0`) }},
	"wrap without sig":            {ErrSignature, func(f *forgery) { f.afterWrap = func(ev *nostr.Event) { ev.Sig = "" } }},
	"wrap sig in upper case":      {ErrMalformed, func(f *forgery) { f.afterWrap = upperSig }},
	"wrap sig of another":         {ErrSignature, func(f *forgery) { f.afterWrap = otherSig }},
	"wrap id of another":          {ErrSignature, func(f *forgery) { f.afterWrap = otherID }},
	"wrap key off the curve": {ErrSignature, func(f *forgery) {
		f.afterWrap = func(ev *nostr.Event) { ev.PubKey = strings.Repeat("f", 64); ev.ID = ev.GetID() }
	}},
	"wrap content changed":     {ErrSignature, func(f *forgery) { f.afterWrap = func(ev *nostr.Event) { ev.Content = "B" + ev.Content[1:] } }},
	"wrap is a direct message": {ErrKind, func(f *forgery) { f.beforeWrap = setKind(4) }},
	"wrap is a seal":           {ErrKind, func(f *forgery) { f.beforeWrap = setKind(KindSeal) }},
	"wrap without p":           {ErrRecipient, func(f *forgery) { f.beforeWrap = setTags(nostr.Tag{"expiration", "1796126400"}) }},
	"wrap with p twice":        {ErrRecipient, func(f *forgery) { f.beforeWrap = addTags(nostr.Tag{"p", bob.PublicKey()}) }},
	"wrap with p and no value": {ErrRecipient, func(f *forgery) { f.beforeWrap = setTags(nostr.Tag{"p"}) }},
	"wrap to another p":        {ErrRecipient, func(f *forgery) { f.recipient = carol }},
	"wrap to bob and carol":    {ErrRecipient, func(f *forgery) { f.beforeWrap = addTags(nostr.Tag{"p", carol.PublicKey()}) }},
	"wrap without expiration":  {ErrMalformed, func(f *forgery) { f.beforeWrap = setTags(nostr.Tag{"p", bob.PublicKey()}) }},
	"wrap expiration no number": {ErrMalformed, func(f *forgery) {
		f.beforeWrap = setTags(nostr.Tag{"p", bob.PublicKey()}, nostr.Tag{"expiration", "+1796126400"})
	}},
	"wrap expired": {ErrExpired, func(f *forgery) {
		f.beforeWrap = setTags(nostr.Tag{"p", bob.PublicKey()}, nostr.Tag{"expiration", "1796040000"})
	}},
	"wrap kept for years": {ErrMalformed, func(f *forgery) {
		f.beforeWrap = setTags(nostr.Tag{"p", bob.PublicKey()}, nostr.Tag{"expiration", "1996126400"})
	}},
	"wrap payload of line breaks":     {ErrDecrypt, func(f *forgery) { f.beforeWrap = setContent(strings.Repeat("\n", newlines)) }},
	"wrap payload with a line break":  {ErrDecrypt, func(f *forgery) { f.payloadSeal = func(s string) string { return s[:76] + "\n" + s[76:] } }},
	"wrap payload empty":              {ErrDecrypt, func(f *forgery) { f.beforeWrap = setContent("") }},
	"wrap payload of version 1":       {ErrDecrypt, func(f *forgery) { f.payloadSeal = func(s string) string { return "AQ" + s[2:] } }},
	"wrap payload of a later version": {ErrDecrypt, func(f *forgery) { f.payloadSeal = func(s string) string { return "#" + s[1:] } }},
	"wrap payload with another MAC":   {ErrDecrypt, func(f *forgery) { f.payloadSeal = func(s string) string { return s[:len(s)-8] + "AAAAAAA=" } }},

	"seal is no event":         {ErrSeal, func(f *forgery) { f.plainSeal = constant("hello") }},
	"seal is deep":             {ErrSeal, func(f *forgery) { f.plainSeal = constant(strings.Repeat("[", 30_000)) }},
	"seal with an unknown key": {ErrSeal, func(f *forgery) { f.plainSeal = replace(`{`, `{"x":1,`) }},
	"seal of another kind":     {ErrSeal, func(f *forgery) { f.beforeSeal = setKind(14) }},
	"seal with a tag":          {ErrSeal, func(f *forgery) { f.beforeSeal = addTags(nostr.Tag{"p", bob.PublicKey()}) }},
	"seal without sig":         {ErrSeal, func(f *forgery) { f.afterSeal = func(ev *nostr.Event) { ev.Sig = "" } }},
	"seal sig of another":      {ErrSeal, func(f *forgery) { f.afterSeal = otherSig }},
	"seal id of another":       {ErrSeal, func(f *forgery) { f.afterSeal = otherID }},
	"seal key of another": {ErrSeal, func(f *forgery) {
		f.afterSeal = func(ev *nostr.Event) { ev.PubKey = carol.PublicKey(); ev.ID = ev.GetID() }
	}},
	"seal payload of line breaks": {ErrDecrypt, func(f *forgery) { f.beforeSeal = setContent(strings.Repeat("\r\n", newlines)) }},
	"seal payload for another":    {ErrDecrypt, func(f *forgery) { f.beforeSeal = setContent(strings.Repeat("AgAA", 40)) }},
	"rumor is no event":           {ErrRumor, func(f *forgery) { f.plainRumor = constant("[]") }},
	"rumor is signed":             {ErrRumor, func(f *forgery) { f.afterRumor = func(ev *nostr.Event) { _ = alice.Sign(ev) } }},
	"rumor of another kind":       {ErrRumor, func(f *forgery) { f.beforeRumor = setKind(14) }},
	"rumor id of another":         {ErrRumor, func(f *forgery) { f.afterRumor = otherID }},
	"rumor without id":            {ErrRumor, func(f *forgery) { f.afterRumor = func(ev *nostr.Event) { ev.ID = "" } }},
	"rumor of another key":        {ErrSender, func(f *forgery) { f.rumorer = carol }},
	"rumor sealed by another key": {ErrSender, func(f *forgery) { f.sealer = carol }},
	"rumor with an unknown tag":   {ErrRumor, func(f *forgery) { f.beforeRumor = addTags(nostr.Tag{"p", bob.PublicKey()}) }},
	"rumor with an empty tag":     {ErrRumor, func(f *forgery) { f.beforeRumor = addTags(nostr.Tag{}) }},
	"rumor in another encoding":   {ErrRumor, func(f *forgery) { f.beforeRumor = addTags(nostr.Tag{"encoding", "gzip"}) }},
	"rumor encoded twice":         {ErrRumor, func(f *forgery) { f.beforeRumor = addTags(encodingTag, encodingTag) }},
	"rumor with two parts": {ErrRumor, func(f *forgery) {
		f.beforeRumor = addTags(nostr.Tag{"part", "1", "2", digest}, nostr.Tag{"part", "2", "2", digest})
	}},
	"part 0":                   {ErrRumor, func(f *forgery) { f.beforeRumor = addTags(nostr.Tag{"part", "0", "2", digest}) }},
	"part 3 of 2":              {ErrRumor, func(f *forgery) { f.beforeRumor = addTags(nostr.Tag{"part", "3", "2", digest}) }},
	"part 1 of 1":              {ErrRumor, func(f *forgery) { f.beforeRumor = addTags(nostr.Tag{"part", "1", "1", digest}) }},
	"part 1 of 65":             {ErrRumor, func(f *forgery) { f.beforeRumor = addTags(nostr.Tag{"part", "1", "65", digest}) }},
	"part 01":                  {ErrRumor, func(f *forgery) { f.beforeRumor = addTags(nostr.Tag{"part", "01", "2", digest}) }},
	"part without digest":      {ErrRumor, func(f *forgery) { f.beforeRumor = addTags(nostr.Tag{"part", "1", "2"}) }},
	"part with a short digest": {ErrRumor, func(f *forgery) { f.beforeRumor = addTags(nostr.Tag{"part", "1", "2", "44"}) }},
	"part without content": {ErrRumor, func(f *forgery) {
		f.beforeRumor = func(ev *nostr.Event) { ev.Tags, ev.Content = nostr.Tags{{"part", "1", "2", digest}}, "" }
	}},
	"content no base64": {ErrInflate, func(f *forgery) { f.beforeRumor = addTags(encodingTag) }},
	"content cut off":   {ErrInflate, func(f *forgery) { f.deflated(`{"v":1}`, func(s string) string { return s[:4] }) }},
	"content with a tail": {ErrInflate, func(f *forgery) {
		f.deflated(`{"v":1}`, func(s string) string { raw, _ := decodeBase64(s); return base64Of(string(raw) + "x") })
	}},
	"content with line breaks":       {ErrInflate, func(f *forgery) { f.deflated(`{"v":1}`, func(s string) string { return s + "\n" }) }},
	"content that inflates to 4 MiB": {ErrInflate, func(f *forgery) { f.deflated(strings.Repeat(" ", 4<<20), nil) }},
	"content one byte over":          {ErrInflate, func(f *forgery) { f.deflated(strings.Repeat(" ", message.MaxSize+1), nil) }},
	"content no message":             {ErrMessage, func(f *forgery) { f.beforeRumor = setContent(`{"v":1}`) }},
	"content is deep":                {ErrMessage, func(f *forgery) { f.beforeRumor = setContent(strings.Repeat(`{"a":`, 2000)) }},
	"content is deep and deflated":   {ErrMessage, func(f *forgery) { f.deflated(strings.Repeat("[", message.MaxSize), nil) }},
	"message from another":           {ErrSender, func(f *forgery) { f.message.From = carol.PublicKey() }},
	"message to another":             {ErrRecipient, func(f *forgery) { f.message.To = carol.PublicKey() }},
	"message expired": {ErrExpired, func(f *forgery) {
		f.message.SentAt, f.message.ExpiresAt = canonical.At(now.Add(-time.Hour)), canonical.At(now)
	}},
	"message from the future": {ErrMessage, func(f *forgery) { f.message.SentAt = canonical.At(now.Add(time.Hour)) }},
	"message without end":     {ErrMessage, func(f *forgery) { f.message.ExpiresAt = canonical.At(now.AddDate(1, 0, 0)) }},
}

// deflated makes the rumor's content a deflated one, broken as told.
func (f *forgery) deflated(data string, breaking func(string) string) {
	content, tags := pack([]byte(data + strings.Repeat(" ", 100)))
	if len(data) > 1000 {
		content, tags = pack([]byte(data))
	}
	f.beforeRumor = func(ev *nostr.Event) { ev.Content, ev.Tags = change(breaking, content), tags }
}

func TestOpen_refuses_a_wrap_broken_in_one_place(t *testing.T) {
	for name, c := range refusals {
		t.Run(name, func(t *testing.T) {
			f := forged(t, name)
			c.forge(f)
			wrap := f.bytes(t)
			opened, err := Open(wrap, bob, now)
			if !errors.Is(err, c.want) || opened != nil {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if Reason(err) != Reason(c.want) {
				t.Errorf("reason %s, want %s", Reason(err), Reason(c.want))
			}
			if strings.Contains(err.Error(), "hello") || len(err.Error()) > 400 {
				t.Errorf("error tells too much: %v", err)
			}
			if *update && len(wrap) < 8<<10 {
				file := fmt.Sprintf("%s.%s.json", Reason(c.want), strings.ReplaceAll(name, " ", "-"))
				writeFile(t, filepath.Join(goldenDir, "refused", file), wrap)
			}
		})
	}
}

func TestOpen_takes_what_the_forger_left_alone(t *testing.T) {
	for name, forge := range map[string]func(*forgery){
		"nothing broken":                func(*forgery) {},
		"seal in another key order":     func(f *forgery) { f.plainSeal = otherOrder },
		"rumor in another key order":    func(f *forgery) { f.plainRumor = otherOrder },
		"another tag on the wrap":       func(f *forgery) { f.beforeWrap = addTags(nostr.Tag{"k", "1417"}, nostr.Tag{}) },
		"message with spaces":           func(f *forgery) { f.beforeRumor = func(ev *nostr.Event) { ev.Content = " " + ev.Content } },
		"deflated without need":         func(f *forgery) { f.beforeRumor = func(ev *nostr.Event) { ev.Content, ev.Tags = stored(ev.Content) } },
		"expires the next second":       func(f *forgery) { f.message.ExpiresAt = canonical.At(now.Add(time.Second)) },
		"sent fifteen minutes from now": func(f *forgery) { f.message.SentAt = canonical.At(now.Add(message.MaxSkew)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := forged(t, name)
			forge(f)
			opened, err := Open(f.bytes(t), bob, now)
			if err != nil {
				t.Fatal(err)
			}
			if opened.Part != nil || opened.Message.ID != f.message.ID || opened.Expires.Unix() != 1796126400 {
				t.Errorf("got %+v", opened)
			}
		})
	}
}

// stored is a message in deflate's form for incompressible data.
func stored(data string) (string, nostr.Tags) {
	n := len(data)
	block := string([]byte{1, byte(n), byte(n >> 8), byte(^n), byte(^n >> 8)}) + data
	return base64Of(block), nostr.Tags{encodingTag}
}

// Every byte of a wrap counts: none can be changed, added or taken away.
func TestOpen_refuses_every_changed_byte(t *testing.T) {
	wrap := mustSeal(t, text(t, "hello"))[0].Bytes
	refused := func(what string, i int, data []byte) {
		t.Helper()
		if _, err := Open(data, bob, now); err == nil {
			t.Fatalf("byte %d %s: %s", i, what, data)
		}
	}
	for i := range wrap {
		for _, bit := range []byte{1 << (i % 8), 0x20} {
			flipped := append([]byte(nil), wrap...)
			flipped[i] ^= bit
			refused("flipped", i, flipped)
		}
		refused("added", i, append(append(append([]byte(nil), wrap[:i]...), " \n0A,"[i%5]), wrap[i:]...))
		refused("taken away", i, append(append([]byte(nil), wrap[:i]...), wrap[i+1:]...))
	}
}

func TestOpen_refuses_a_wrap_passed_on_to_another(t *testing.T) {
	wrap := mustSeal(t, text(t, "hello"))[0].Bytes
	if _, err := Open(wrap, carol, now); !errors.Is(err, ErrRecipient) {
		t.Errorf("the wrap as it is: %v", err)
	}
	// Bob opens the outer layer and wraps alice's seal anew for carol.
	outer, err := parseWrap(wrap)
	if err != nil {
		t.Fatal(err)
	}
	seal, err := openSeal(outer, bob)
	if err != nil {
		t.Fatal(err)
	}
	f := forged(t, "passed on")
	f.recipient, f.plainSeal = carol, constant(encode(t, seal))
	if _, err := Open(f.bytes(t), carol, now); !errors.Is(err, ErrDecrypt) {
		t.Errorf("the seal wrapped anew: %v", err)
	}
	// Bob seals alice's message for carol under his own key.
	f = forged(t, "sealed anew")
	f.recipient, f.sealer, f.rumorer = carol, bob, bob
	if _, err := Open(f.bytes(t), carol, now); !errors.Is(err, ErrSender) {
		t.Errorf("the message sealed anew: %v", err)
	}
}

func TestOpen_refuses_after_the_time_is_over(t *testing.T) {
	m := text(t, "hello")
	wrap := mustSeal(t, m)[0].Bytes
	for name, at := range map[string]time.Time{
		"message expired, wrap not": m.ExpiresAt.Time,
		"a year later":              now.AddDate(1, 0, 0),
	} {
		if _, err := Open(wrap, bob, at); !errors.Is(err, ErrExpired) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type brokenKey struct{ key }

func (brokenKey) ConversationKey(string) ([32]byte, error) { return [32]byte{}, os.ErrClosed }

func TestOpen_reports_a_key_that_fails(t *testing.T) {
	wrap := mustSeal(t, text(t, "hello"))[0].Bytes
	if _, err := Open(wrap, brokenKey{bob}, now); !errors.Is(err, os.ErrClosed) || !errors.Is(err, ErrDecrypt) {
		t.Errorf("got %v", err)
	}
}

func TestReason_is_closed_and_tells_errors_apart(t *testing.T) {
	labels := map[string]bool{}
	for _, label := range Reasons() {
		if labels[label] || label == "" {
			t.Errorf("label %q", label)
		}
		labels[label] = true
	}
	for _, reason := range reasons {
		if got := Reason(fmt.Errorf("somewhere: %w", reason.err)); got != reason.label {
			t.Errorf("%v is %s", reason.err, got)
		}
	}
	if got := Reason(os.ErrClosed); got != reasonOther || !labels[got] {
		t.Errorf("another error is %q", got)
	}
	if got := Reason(nil); got != "" {
		t.Errorf("no error is %q", got)
	}
}
