package logproof

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// Errors of this package; test with errors.Is.
var (
	// ErrMalformed means a text that is not of the form it should have.
	ErrMalformed = errors.New("logproof: malformed")
	// ErrSignature means that the log's key did not sign the checkpoint, or
	// that a key of the policy stands beside a signature that is not its own.
	ErrSignature = errors.New("logproof: checkpoint not signed by the log")
	// ErrQuorum means that too few of the policy's witnesses cosigned.
	ErrQuorum = errors.New("logproof: too few cosignatures")
	// ErrProof means that hashes do not lead from the entry, or from the older
	// tree, to the tree of the checkpoint.
	ErrProof = errors.New("logproof: proof does not hold")
	// ErrPolicy means a Policy that cannot be meant.
	ErrPolicy = errors.New("logproof: bad policy")
)

// Bounds of what is read.
const (
	MaxSize  = 1 << 53  // entries of a log: what every JSON number can hold
	MaxNote  = 16 << 10 // bytes of a signed checkpoint
	MaxProof = 32 << 10 // bytes of a proof, and of the request to a witness
	maxPath  = 63       // hashes of a proof (C2SP tlog-witness)
	maxExtra = 8 << 10  // bytes of a proof's extra data, decoded
)

// Hash is a hash of RFC 6962: of an entry, of an inner node or of a root.
type Hash = tlog.Hash

// EmptyRoot is the root of a tree without entries: SHA-256 of nothing.
var EmptyRoot, _ = tlog.TreeHash(0, nil)

// Checkpoint says that a log had a size and a root.
type Checkpoint struct {
	Origin string // the log's name; also the name of its key
	Size   int64  // number of entries, 0 to MaxSize
	Root   Hash
}

// Text is what is signed (C2SP tlog-checkpoint): three lines.
func (c Checkpoint) Text() string {
	return c.Origin + "\n" + strconv.FormatInt(c.Size, 10) + "\n" + c.Root.String() + "\n"
}

// parseText reads the text of a checkpoint. Extension lines are passed over.
func parseText(text string) (Checkpoint, error) {
	body, ended := strings.CutSuffix(text, "\n")
	lines := strings.Split(body, "\n")
	if !ended || len(lines) < 3 {
		return Checkpoint{}, fmt.Errorf("%w: checkpoint of %d lines", ErrMalformed, len(lines))
	}
	for _, extension := range lines[3:] {
		if extension == "" {
			return Checkpoint{}, fmt.Errorf("%w: empty line in a checkpoint", ErrMalformed)
		}
	}
	c := Checkpoint{Origin: lines[0]}
	var err error
	if !validName(c.Origin) {
		return Checkpoint{}, fmt.Errorf("%w: origin %.60q", ErrMalformed, c.Origin)
	}
	if c.Size, err = parseNumber(lines[1]); err != nil {
		return Checkpoint{}, err
	}
	if c.Root, err = parseHash(lines[2]); err != nil {
		return Checkpoint{}, err
	}
	if c.Size == 0 && c.Root != EmptyRoot {
		return Checkpoint{}, fmt.Errorf("%w: root of an empty tree", ErrMalformed)
	}
	return c, nil
}

// parseNumber reads a size or an index: decimal digits without a leading zero.
func parseNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > MaxSize || strconv.FormatInt(n, 10) != text {
		return 0, fmt.Errorf("%w: number %.30q", ErrMalformed, text)
	}
	return n, nil
}

// parseHash reads 32 bytes in the one form that base64 has for them.
func parseHash(text string) (Hash, error) {
	var h Hash
	if len(text) != base64.StdEncoding.EncodedLen(len(h)) {
		return Hash{}, fmt.Errorf("%w: hash %.60q", ErrMalformed, text)
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(data) != len(h) {
		return Hash{}, fmt.Errorf("%w: hash %.60q", ErrMalformed, text)
	}
	copy(h[:], data)
	if h.String() != text {
		return Hash{}, fmt.Errorf("%w: hash %.60q", ErrMalformed, text)
	}
	return h, nil
}

// parseHashes reads the lines of a proof.
func parseHashes(lines []string) ([]Hash, error) {
	if len(lines) > maxPath {
		return nil, fmt.Errorf("%w: proof of %d hashes", ErrMalformed, len(lines))
	}
	var hashes []Hash
	for _, line := range lines {
		h, err := parseHash(line)
		if err != nil {
			return nil, err
		}
		hashes = append(hashes, h)
	}
	return hashes, nil
}

func hashLines(hashes []Hash) string {
	var text strings.Builder
	for _, h := range hashes {
		text.WriteString(h.String() + "\n")
	}
	return text.String()
}
