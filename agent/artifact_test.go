package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/parleykit/parley/protocol/canonical"

	"github.com/parleykit/parley/protocol/agreement"
)

// bundleBytes looks like a stored bundle to writeFolder, which does not verify
// again.
func bundleBytes(t *testing.T, consensus string) []byte {
	t.Helper()
	data, err := canonical.Marshal(agreement.Bundle{Revision: "{}", Markdown: "# x\n", Consensus: consensus})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTheFolderOfAnAgreementIsCompleteOrAbsent(t *testing.T) {
	t.Parallel()
	a := &Agent{home: t.TempDir()}
	data := bundleBytes(t, "# agreed\n")
	// A crash left a temporary folder, and somebody made the place unusable.
	if err := os.MkdirAll(filepath.Join(a.home, agreementsName, ".new-123"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(a.folder("id"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(a.folder("id"), "CONSENSUS.md"), []byte("forged"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time finds it complete
		if err := a.writeFolder("id", data); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"CONSENSUS.md": "# agreed\n", "revision.md": "# x\n", "revision.json": "{}", "bundle.json": string(data),
		} {
			got, err := os.ReadFile(filepath.Join(a.folder("id"), name))
			if err != nil || string(got) != want {
				t.Errorf("%s = %q, %v", name, got, err)
			}
		}
	}
	list, err := os.ReadDir(filepath.Join(a.home, agreementsName))
	if err != nil || len(list) != 3 {
		t.Errorf("folders = %v, %v; want the agreement, the leftover and the one put aside", list, err)
	}
}

func TestAnOutcomeWithoutConsensusHasNoSuchFile(t *testing.T) {
	t.Parallel()
	a := &Agent{home: t.TempDir()}
	if err := a.writeFolder("id", bundleBytes(t, "")); err != nil {
		t.Fatal(err)
	}
	if exists(filepath.Join(a.folder("id"), "CONSENSUS.md")) {
		t.Error("there is a CONSENSUS.md")
	}
}
