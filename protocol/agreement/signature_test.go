package agreement

import (
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/canonical"
)

func TestVerifySignature_acceptsWhatSignMakes(t *testing.T) {
	a := sample(2)
	for _, action := range []string{ActionPropose, ActionAgree, ActionDisagree, ActionAbstain, ActionWithdraw} {
		ev, err := Sign(a, a.Digest(), action, "", participantKey(1), start)
		if err != nil {
			t.Fatal(err)
		}
		if err := VerifySignature(ev, a, a.Digest(), action, "", participantKey(1).PublicKey(), start); err != nil {
			t.Error(action, err)
		}
		data, err := canonical.Marshal(SignatureOf(ev))
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseSignature(data)
		if err != nil || back.String() != ev.String() {
			t.Errorf("%v: %v", back, err)
		}
	}
}

// TestVerifySignature_bindsEveryPart signs correctly each time: only the act
// differs from the one that is verified.
func TestVerifySignature_bindsEveryPart(t *testing.T) {
	a := sample(2)
	k := participantKey(1)
	edits := map[string]func(*nostr.Event){
		"kind":          func(ev *nostr.Event) { ev.Kind = 1 },
		"tag missing":   func(ev *nostr.Event) { ev.Tags = ev.Tags[:5] },
		"tag more":      func(ev *nostr.Event) { ev.Tags = append(ev.Tags, nostr.Tag{"t", "x"}) },
		"tags reversed": func(ev *nostr.Event) { ev.Tags[0], ev.Tags[1] = ev.Tags[1], ev.Tags[0] },
		"venue":         func(ev *nostr.Event) { ev.Tags[0][1] = k.PublicKey() },
		"agreement":     func(ev *nostr.Event) { ev.Tags[1][1] = "019ad4f5-3c00-7a1b-8c2d-000000000000" },
		"revision":      func(ev *nostr.Event) { ev.Tags[2][1] = "2" },
		"digest":        func(ev *nostr.Event) { ev.Tags[3][1] = ZeroHash },
		"action":        func(ev *nostr.Event) { ev.Tags[4][1] = ActionDisagree },
		"not protected": func(ev *nostr.Event) { ev.Tags[5][0] = "+" },
		"content":       func(ev *nostr.Event) { ev.Content = "but" },
		"future":        func(ev *nostr.Event) { ev.CreatedAt += 901 },
		"negative time": func(ev *nostr.Event) { ev.CreatedAt = -1 },
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			ev, _ := Sign(a, a.Digest(), ActionAgree, "", k, start)
			edit(&ev)
			if err := k.Sign(&ev); err != nil {
				t.Fatal(err)
			}
			wantCode(t, VerifySignature(ev, a, a.Digest(), ActionAgree, "", k.PublicKey(), start), CodeSignatureInvalid)
		})
	}
	ev, _ := Sign(a, a.Digest(), ActionAgree, "", participantKey(2), start)
	wantCode(t, VerifySignature(ev, a, a.Digest(), ActionAgree, "", k.PublicKey(), start), CodeSignatureInvalid)
}

func TestVerifySignature_refusesOtherSpellings(t *testing.T) {
	a := sample(2)
	k := participantKey(1)
	for name, edit := range map[string]func(*nostr.Event){
		"upper-case sig":    func(ev *nostr.Event) { ev.Sig = strings.ToUpper(ev.Sig) },
		"upper-case id":     func(ev *nostr.Event) { ev.ID = strings.ToUpper(ev.ID) },
		"upper-case pubkey": func(ev *nostr.Event) { ev.PubKey = strings.ToUpper(ev.PubKey) },
		"short sig":         func(ev *nostr.Event) { ev.Sig = ev.Sig[:126] },
		"no sig":            func(ev *nostr.Event) { ev.Sig = "" },
		"no id":             func(ev *nostr.Event) { ev.ID = "" },
		"zero sig":          func(ev *nostr.Event) { ev.Sig = strings.Repeat("0", 128) },
	} {
		t.Run(name, func(t *testing.T) {
			ev, _ := Sign(a, a.Digest(), ActionAgree, "", k, start)
			edit(&ev)
			wantCode(t, VerifySignature(ev, a, a.Digest(), ActionAgree, "", k.PublicKey(), start), CodeSignatureInvalid)
		})
	}
}

func TestApply_signatureIsMadeBetweenLockAndFifteenMinutesAhead(t *testing.T) {
	now := start.Add(time.Hour)
	for name, c := range map[string]struct {
		created time.Time
		want    string
	}{
		"before the lock": {start.Add(-time.Second), CodeSignatureInvalid},
		"at the lock":     {start, ""},
		"15 min ahead":    {now.Add(MaxSkew), ""},
		"further ahead":   {now.Add(MaxSkew + time.Second), CodeSignatureInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			r := openRoom(t, sample(2))
			sig, _ := Sign(r.agreement, r.digest, ActionAgree, "", participantKey(2), c.created)
			_, err := r.Apply(NewCommand(r.agreement, "p2", ActionAgree, ""), &sig, AssuranceNostrKey, now)
			wantCode(t, err, c.want)
		})
	}
}

func TestApply_adviceMayGoUnsignedADecisionMayNot(t *testing.T) {
	r := openRoom(t, sample(2))
	if _, err := r.Apply(NewCommand(r.agreement, "p2", ActionComment, "x"), nil, AssuranceNostrKey, start); err != nil {
		t.Error(err)
	}
	for _, action := range []string{ActionAgree, ActionDisagree, ActionAbstain} {
		_, err := r.Apply(NewCommand(r.agreement, "p2", action, ""), nil, AssuranceNostrKey, start)
		wantCode(t, err, CodeSignatureRequired)
	}
	bad, _ := Sign(r.agreement, r.digest, ActionComment, "x", participantKey(1), start)
	_, err := r.Apply(NewCommand(r.agreement, "p2", ActionComment, "x"), &bad, AssuranceNostrKey, start)
	wantCode(t, err, CodeSignatureInvalid)
}

func TestApply_delegateDecidesOnlyWhereTheRosterNamesIt(t *testing.T) {
	delegate := newKey("delegate")
	signed := func(r *Room, action string) error {
		sig, _ := Sign(r.agreement, r.digest, action, "", delegate, start)
		_, err := r.Apply(NewCommand(r.agreement, "p1", action, ""), &sig, AssuranceNostrKey, start)
		return err
	}
	wantCode(t, signed(openRoom(t, sample(2)), ActionAgree), CodeSignatureInvalid)
	a := sample(2)
	a.Participants[0].Delegate = delegate.PublicKey()
	r := openRoom(t, a)
	wantCode(t, signed(r, ActionWithdraw), CodeNotPermitted)
	wantCode(t, signed(r, ActionAgree), "")
	sig, _ := Sign(a, a.Digest(), ActionPropose, "", delegate, start)
	_, err := Open(a, sig, start)
	wantCode(t, err, CodeNotPermitted)
}

func TestApply_participantByAddressNeedsNoSignatureAndCannotFakeOne(t *testing.T) {
	a := sample(3)
	a.Participants[1].PubKey, a.Participants[1].AddressCommitment = "", commitment("p2")
	r := openRoom(t, a)
	sig, _ := Sign(a, r.digest, ActionAgree, "", participantKey(2), start)
	cmd := NewCommand(a, "p2", ActionAgree, "")
	_, err := r.Apply(cmd, &sig, AssuranceInviteLink, start)
	wantCode(t, err, CodeSignatureInvalid)
	if _, err := r.Apply(cmd, nil, AssuranceEmailReplyDKIMA, start); err != nil {
		t.Error(err)
	}
}

func TestParseSignature_isStrict(t *testing.T) {
	a := sample(2)
	ev, _ := Sign(a, a.Digest(), ActionAgree, "", participantKey(1), start)
	data, _ := canonical.Marshal(SignatureOf(ev))
	for name, edit := range map[string][2]string{
		"unknown member": {`"kind":1418`, `"kind":1418,"ots":""`},
		"other kind":     {`"kind":1418`, `"kind":1`},
		"text kind":      {`"kind":1418`, `"kind":"1418"`},
		"no content":     {`"content":"",`, ``},
		"null tags":      {`["-"]`, `null`},
		"duplicate":      {`"kind":1418`, `"kind":1418,"kind":1418`},
		"text after":     {`"tags":`, `"tags": `},
	} {
		_, err := ParseSignature([]byte(strings.Replace(string(data), edit[0], edit[1], 1)))
		if (err == nil) != (name == "text after") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
