package agreement

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"
	"go.yaml.in/yaml/v4"

	"github.com/parleykit/parley/protocol/canonical"
)

var update = flag.Bool("update", false, "write the golden files")

// start is the instant at which the tests' agreements are proposed.
var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// key is a deterministic Signer.
type key string

func newKey(name string) key {
	sum := sha256.Sum256([]byte(name))
	return key(hex.EncodeToString(sum[:]))
}

func (k key) PublicKey() string {
	pub, err := nostr.GetPublicKey(string(k))
	if err != nil {
		panic(err)
	}
	return pub
}

func (k key) Sign(ev *nostr.Event) error { return ev.Sign(string(k)) }

var venueKey = newKey("venue")

// participantKey is the key of participant pN in every test agreement.
func participantKey(n int) key { return newKey(fmt.Sprintf("participant %d", n)) }

func commitment(name string) string {
	sum := sha256.Sum256([]byte("commitment of " + name))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// sample is a valid parley/1 agreement of n participants with fixed bytes.
func sample(n int) *Agreement {
	a := &Agreement{
		Schema: "https://parley.example/schemas/agreement/v1", Profile: ProfileParley,
		AgreementID: "019ad4f5-3c00-7a1b-8c2d-1234567890ab", Venue: venueKey.PublicKey(), Revision: Revision,
		Title: "Shared tide tables", Objective: "Publish one tide table.\nKeep it for a year.",
		Must: []string{"Name the source of every value."}, MustNot: []string{"Sell the table."},
		Strategy: Strategy{Name: Unanimity}, Deadline: canonical.At(start.Add(48 * time.Hour)),
	}
	for i := range n {
		p := Participant{
			ID: participantID(i), Kind: KindAgent, Role: RoleInvited,
			Label: fmt.Sprintf("Station %d", i+1), PubKey: participantKey(i + 1).PublicKey(),
		}
		if i == 0 {
			p.Role = RoleInitiator
		}
		a.Participants = append(a.Participants, p)
	}
	return a
}

// consensusSample is a valid consensus/1 agreement.
func consensusSample() *Agreement {
	a := sample(3)
	a.Profile, a.Venue = ProfileConsensus, "https://parley.example"
	for i := range a.Participants {
		p := &a.Participants[i]
		p.PubKey, p.Kind, p.AddressCommitment = "", KindAgentMail, commitment(p.ID)
	}
	a.Participants[0].Kind = KindHuman
	return a
}

// openRoom locks a at start.
func openRoom(t testing.TB, a *Agreement) *Room {
	t.Helper()
	sig, err := Sign(a, a.Digest(), ActionPropose, "", participantKey(1), start.Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(a, sig, start)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// act applies a signed command of participant n.
func act(r *Room, n int, action, body string, now time.Time) (Event, error) {
	sig, err := Sign(r.agreement, r.digest, action, body, participantKey(n), now)
	if err != nil {
		return Event{}, err
	}
	c := r.command(participantID(n-1), action)
	c.Body = body
	return r.Apply(c, &sig, AssuranceNostrKey, now)
}

func mustAct(t testing.TB, r *Room, n int, action, body string, now time.Time) Event {
	t.Helper()
	e, err := act(r, n, action, body, now)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// reachedRoom is a room of n participants who talked and agreed.
func reachedRoom(t testing.TB, a *Agreement) *Room {
	t.Helper()
	r := openRoom(t, a)
	now := start.Add(time.Minute)
	mustAct(t, r, 2, ActionQuestion, "Which datum do we use?", now)
	mustAct(t, r, 1, ActionComment, "Chart datum. *See* the <annex>.", now.Add(time.Minute))
	for n := range a.Participants {
		now = now.Add(time.Hour)
		mustAct(t, r, n+1, ActionAgree, "", now)
	}
	return r
}

// wantCode fails unless err is a *Refusal with code.
func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	var got string
	if r, ok := err.(*Refusal); ok {
		got = r.Code
	}
	if got != code {
		t.Fatalf("error %v, want a refusal %q", err, code)
	}
}

// golden compares got with a file under testdata/agreement, or writes it.
func golden(t testing.TB, name string, got []byte) {
	t.Helper()
	path := filepath.Join("../../testdata/agreement", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got); -update writes it:\n%s", name, diff)
	}
}

// draft is one file of testdata/agreements.
type draft struct {
	Title     string   `yaml:"title"`
	Objective string   `yaml:"objective"`
	Must      []string `yaml:"must"`
	MustNot   []string `yaml:"must_not"`
}

// drafts are the agreements of testdata/agreements by file name, each with
// three participants and a fixed id.
func drafts(t testing.TB) map[string]*Agreement {
	t.Helper()
	paths, err := filepath.Glob("../../testdata/agreements/*.yaml")
	if err != nil || len(paths) < 4 {
		t.Fatalf("found %d drafts: %v", len(paths), err)
	}
	out := make(map[string]*Agreement)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var d draft
		if err := yaml.Load(data, &d, yaml.WithKnownFields()); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		a := sample(3)
		a.Title, a.Objective, a.Must, a.MustNot = d.Title, d.Objective, d.Must, d.MustNot
		out[filepath.Base(path)] = a
	}
	return out
}
