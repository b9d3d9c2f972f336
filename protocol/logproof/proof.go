package logproof

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// header is the first line of a proof.
const header = "c2sp.org/tlog-proof@v1"

// Proof shows that an entry is in a log (C2SP tlog-proof).
type Proof struct {
	Extra      []byte // unauthenticated, of the application; nil when there is none
	Index      int64  // of the entry, from 0
	Path       []Hash // from the entry's neighbour to the child of the root
	Checkpoint string // signed, as the log gave it out
}

// String is the text that ParseProof reads.
func (p *Proof) String() string {
	extra := ""
	if p.Extra != nil {
		extra = "extra " + base64.StdEncoding.EncodeToString(p.Extra) + "\n"
	}
	return header + "\n" + extra + "index " + strconv.FormatInt(p.Index, 10) + "\n" + hashLines(p.Path) + "\n" + p.Checkpoint
}

// Alone is the proof without extra data and with the signature of the log's key
// and no other: what others cosigned is not covered by anything that holds the
// proof itself. ErrSignature.
func (p *Proof) Alone(log Key) (*Proof, error) {
	opened, err := note.Open([]byte(p.Checkpoint), note.VerifierList(log))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	text := bytes.NewBufferString(opened.Text)
	fmt.Fprintf(text, "\n\u2014 %s %s\n", opened.Sigs[0].Name, opened.Sigs[0].Base64)
	return &Proof{Index: p.Index, Path: p.Path, Checkpoint: text.String()}, nil
}

// ParseProof reads a proof and checks its form alone. ErrMalformed.
func ParseProof(text string) (*Proof, error) {
	if len(text) > MaxProof {
		return nil, fmt.Errorf("%w: proof of %d bytes", ErrMalformed, len(text))
	}
	head, signed, found := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	if !found || lines[0] != header {
		return nil, fmt.Errorf("%w: no proof", ErrMalformed)
	}
	p := &Proof{Checkpoint: signed}
	lines = lines[1:]
	if len(lines) > 0 && strings.HasPrefix(lines[0], "extra ") {
		var err error
		if p.Extra, err = parseExtra(strings.TrimPrefix(lines[0], "extra ")); err != nil {
			return nil, err
		}
		lines = lines[1:]
	}
	var err error
	if p.Index, p.Path, err = parseNumbered("index ", lines); err != nil {
		return nil, err
	}
	if _, err := Unverified(signed); err != nil {
		return nil, err
	}
	return p, nil
}

func parseExtra(encoded string) ([]byte, error) {
	extra, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(extra) > maxExtra || base64.StdEncoding.EncodeToString(extra) != encoded {
		return nil, fmt.Errorf("%w: extra data", ErrMalformed)
	}
	return extra, nil
}

// parseNumbered reads a line of a word and a number, and lines of hashes.
func parseNumbered(word string, lines []string) (n int64, hashes []Hash, err error) {
	if len(lines) == 0 || !strings.HasPrefix(lines[0], word) {
		return 0, nil, fmt.Errorf("%w: no line %q", ErrMalformed, word)
	}
	if n, err = parseNumber(strings.TrimPrefix(lines[0], word)); err != nil {
		return 0, nil, err
	}
	hashes, err = parseHashes(lines[1:])
	return n, hashes, err
}

// Entry is what a proof proved.
type Entry struct {
	Signed
	Index int64 // of the entry, below Size
}

// Verify checks that the log of the policy holds leaf, the bytes of an entry.
// proof is the text of a Proof. It gives the errors of Open, and ErrProof.
func Verify(leaf []byte, proof string, policy Policy) (*Entry, error) {
	p, err := ParseProof(proof)
	if err != nil {
		return nil, err
	}
	signed, err := Open(p.Checkpoint, policy)
	if err != nil {
		return nil, err
	}
	if err := tlog.CheckRecord(p.Path, signed.Size, signed.Root, p.Index, tlog.RecordHash(leaf)); err != nil {
		return nil, fmt.Errorf("%w: entry %d of %d: %w", ErrProof, p.Index, signed.Size, err)
	}
	return &Entry{Signed: *signed, Index: p.Index}, nil
}

// CheckConsistency checks that the tree of newer begins with all entries of
// older (RFC 6962, section 2.1.2). It does not look at signatures. The path is
// empty when the older tree is, and when both are the same. ErrProof.
func CheckConsistency(older, newer Checkpoint, path []Hash) error {
	var err error
	switch {
	case older.Origin != newer.Origin:
		return fmt.Errorf("%w: of two logs", ErrProof)
	case older.Size < 0 || older.Size > newer.Size || newer.Size > MaxSize:
		return fmt.Errorf("%w: from %d to %d entries", ErrProof, older.Size, newer.Size)
	case older.Size == 0 && len(path) == 0 && older.Root == EmptyRoot && (newer.Size > 0 || newer.Root == EmptyRoot):
		return nil
	case older.Size == 0:
		return fmt.Errorf("%w: from an empty tree", ErrProof)
	default:
		err = tlog.CheckTree(path, newer.Size, newer.Root, older.Size, older.Root)
	}
	if err != nil {
		return fmt.Errorf("%w: from %d to %d entries: %w", ErrProof, older.Size, newer.Size, err)
	}
	return nil
}
