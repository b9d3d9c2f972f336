package receipt

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/parleykit/parley/protocol/canonical"
)

// What the protocol's own packages are asked, and what they answer.
type (
	npmQuestion struct {
		Receipts []npmReceipt      `json:"receipts"` // to verify
		Issue    []map[string]any  `json:"issue"`    // claims to sign
		Key      string            `json:"key"`      // the secret key they are signed with
		Groups   []npmGroup        `json:"groups"`   // to judge
		Values   []json.RawMessage `json:"values"`   // to write canonically and hash
	}
	npmReceipt struct {
		JWS string `json:"jws"`
		Key string `json:"key"`
	}
	npmGroup struct {
		Name  string `json:"name"`
		Value any    `json:"value"`
	}
	npmAnswer struct {
		Verified []struct {
			Problem string `json:"problem"`
			Ref     string `json:"ref"`
			KeyID   string `json:"kid"`
			Type    string `json:"typ"`
			Payload string `json:"payload"`
		} `json:"verified"`
		Issued []struct {
			Problem string `json:"problem"`
			JWS     string `json:"jws"`
		} `json:"issued"`
		PublicKey string `json:"publicKey"`
		Accepted  []bool `json:"accepted"`
		Forms     []struct {
			Form string `json:"form"`
			Hash string `json:"hash"`
		} `json:"forms"`
	}
)

// TestReceipts_agree_with_the_packages_of_the_protocol needs node and "npm ci"
// in testdata/npm. Everything is asked of one process.
func TestReceipts_agree_with_the_packages_of_the_protocol(t *testing.T) {
	node, folder := npm(t)
	now := casesNow.Unix()
	theirSeed := bytes.Repeat([]byte{9}, ed25519.SeedSize)
	question := npmQuestion{Key: base64.RawURLEncoding.EncodeToString(theirSeed)}
	claims := rapid.Custom(func(t *rapid.T) map[string]any { return anyClaims(t, now) })
	drawn := map[string]bool{}
	for seed := range 500 {
		ours := claims.Example(seed)
		drawn[ours["kind"].(string)] = true
		for key := range ours["extensions"].(map[string]any) {
			drawn[strings.TrimPrefix(key, namespace)] = true
		}
		question.Receipts = append(question.Receipts, npmReceipt{
			JWS: mustIssue(t, decodedClaims(t, ours)),
			Key: base64.RawURLEncoding.EncodeToString(testKey),
		})
		question.Issue = append(question.Issue, claims.Example(500+seed))
	}
	for _, name := range append(slices.Collect(maps.Keys(groupMakers)), KindEvidence, KindChallenge) {
		if !drawn[name] {
			t.Errorf("no receipt with %s was drawn", name)
		}
	}
	spoiltGroup := rapid.Custom(func(t *rapid.T) npmGroup {
		name, group := anyGroup(t)
		return npmGroup{namespace + name, spoilt(t, group)}
	})
	for seed := range 2000 {
		question.Groups = append(question.Groups, spoiltGroup.Example(seed))
	}
	value := rapid.Custom(func(t *rapid.T) json.RawMessage { return encoded(t, anyJSON(t, 4)) })
	for seed := range 10_000 {
		question.Values = append(question.Values, value.Example(seed))
	}
	answer := ask(t, node, folder, &question)

	t.Run("they verify what we issue", func(t *testing.T) { verifiedByNPM(t, &question, answer) })
	t.Run("we verify what they issue", func(t *testing.T) { issuedByNPM(t, &question, answer) })
	t.Run("groups", func(t *testing.T) { groupsByNPM(t, &question, answer) })
	t.Run("canonical forms and digests", func(t *testing.T) { formsByNPM(t, &question, answer) })
}

func verifiedByNPM(t *testing.T, question *npmQuestion, answer *npmAnswer) {
	for i, theirs := range answer.Verified {
		jws := question.Receipts[i].JWS
		ours := mustVerify(t, jws, VerifyOptions{Now: casesNow})
		if theirs.Problem != "" {
			t.Errorf("refused: %s\n%s", theirs.Problem, theirs.Payload)
			continue
		}
		if theirs.Ref != ours.Reference || theirs.KeyID != ours.KeyID || theirs.Type != RecordType {
			t.Errorf("got %s, %s, %s", theirs.Ref, theirs.KeyID, theirs.Type)
		}
		payload, err := payloadOf(&ours.Claims)
		if err != nil || string(payload) != theirs.Payload {
			t.Errorf("payload differs, %v:\n%s\n%s", err, payload, theirs.Payload)
		}
	}
	if len(answer.Verified) != len(question.Receipts) {
		t.Errorf("%d answers", len(answer.Verified))
	}
}

func issuedByNPM(t *testing.T, question *npmQuestion, answer *npmAnswer) {
	key, err := base64.RawURLEncoding.DecodeString(answer.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	for i, theirs := range answer.Issued {
		if theirs.Problem != "" {
			t.Errorf("their own schema refuses: %s", theirs.Problem)
		}
		verified, err := Verify(theirs.JWS, key, VerifyOptions{Now: casesNow})
		if err != nil {
			t.Errorf("%v: %s", err, encoded(t, question.Issue[i]))
			continue
		}
		if diff := cmp.Diff(decodedClaims(t, question.Issue[i]), &verified.Claims); diff != "" {
			t.Errorf("claims (-sent +read):\n%s", diff)
		}
	}
	if len(answer.Issued) != len(question.Issue) {
		t.Errorf("%d answers", len(answer.Issued))
	}
}

func groupsByNPM(t *testing.T, question *npmQuestion, answer *npmAnswer) {
	refused := 0
	for i, accepted := range answer.Accepted {
		asked := question.Groups[i]
		_, err := checkGroup(asked.Name, asked.Value, "")
		if err != nil {
			refused++
		}
		if accepted == (err == nil) {
			continue
		}
		if err == nil || !isMendedURI(asked.Value, err.Pointer) {
			t.Errorf("they accept: %t, we: %v: %s", accepted, err, encoded(t, asked))
		}
	}
	if len(answer.Accepted) != len(question.Groups) || refused < 200 || refused > len(question.Groups)-200 {
		t.Errorf("%d answers, %d refusals", len(answer.Accepted), refused)
	}
}

// isMendedURI reports whether pointer leads to the one thing we refuse and
// they mend: a URI with white space or too many slashes, which is none.
func isMendedURI(value any, pointer string) bool {
	found, _ := lookUp(value, pointer)
	uri, _ := found.(string)
	return strings.ContainsAny(uri, " \n") || strings.HasPrefix(uri, "https:///")
}

func formsByNPM(t *testing.T, question *npmQuestion, answer *npmAnswer) {
	for i, theirs := range answer.Forms {
		ours, err := canonical.Transform(question.Values[i])
		if err != nil || string(ours) != theirs.Form {
			t.Errorf("%s, %v: we write %s, they %s", question.Values[i], err, ours, theirs.Form)
		}
		if digest, err := PolicyDigest(question.Values[i]); err != nil || digest != "sha256:"+theirs.Hash {
			t.Errorf("%s, %v: our digest %s, theirs %s", question.Values[i], err, digest, theirs.Hash)
		}
	}
	if len(answer.Forms) != len(question.Values) {
		t.Errorf("%d answers", len(answer.Forms))
	}
}

// npm finds node and the folder of the packages, or skips the test.
func npm(t *testing.T) (node, folder string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	folder = filepath.Join("..", "..", "testdata", "npm")
	if _, err := os.Stat(filepath.Join(folder, "node_modules", "@peac", "schema")); err != nil {
		t.Skip("the protocol's packages are not installed: run npm ci in testdata/npm")
	}
	return node, folder
}

func ask(t *testing.T, node, folder string, question *npmQuestion) *npmAnswer {
	t.Helper()
	process := exec.CommandContext(t.Context(), node, "receipt.mjs")
	process.Dir = folder
	process.Stdin = bytes.NewReader(encoded(t, question))
	process.Stderr = os.Stderr
	out, err := process.Output()
	if err != nil {
		t.Fatal(err)
	}
	var answer npmAnswer
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatalf("%v: %.200s", err, out)
	}
	return &answer
}

// decodedClaims takes over claims drawn as JSON.
func decodedClaims(t *testing.T, drawn map[string]any) *Claims {
	t.Helper()
	var claims Claims
	if err := json.Unmarshal(encoded(t, drawn), &claims); err != nil {
		t.Fatal(err)
	}
	return &claims
}
