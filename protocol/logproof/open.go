package logproof

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// Policy says whom a reader believes.
type Policy struct {
	Log       Key   // the log's key; its name is the origin
	Witnesses []Key // no key twice
	Quorum    int   // how many of the witnesses must have cosigned, 0 or more
}

// Signed is a checkpoint whose signatures were checked.
type Signed struct {
	Checkpoint
	Text         string // what was signed, with extension lines
	Cosignatures []Cosignature
}

// Cosignature says that a witness saw the checkpoint as the newest one.
type Cosignature struct {
	Key  Key
	Time time.Time // by the witness's clock, to the second
}

func (p Policy) check() error {
	if p.Log.alg != algLog {
		return fmt.Errorf("%w: no key of a log", ErrPolicy)
	}
	seen := make(map[[32]byte]bool)
	for _, w := range p.Witnesses {
		// One key under two names would count as two witnesses.
		if !w.IsWitness() || seen[w.public] {
			return fmt.Errorf("%w: %.60q is no witness or stands twice", ErrPolicy, w.name)
		}
		seen[w.public] = true
	}
	if p.Quorum < 0 || p.Quorum > len(p.Witnesses) {
		return fmt.Errorf("%w: quorum %d of %d witnesses", ErrPolicy, p.Quorum, len(p.Witnesses))
	}
	return nil
}

// Open checks a signed checkpoint: the log's key must have signed it, and at
// least Quorum of the witnesses. Signatures by other keys are passed over. It
// gives ErrMalformed, ErrSignature, ErrQuorum or ErrPolicy.
func Open(signed string, p Policy) (*Signed, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	known := []note.Verifier{p.Log}
	for _, w := range p.Witnesses {
		known = append(known, w)
	}
	text, cosignatures, err := openNote(signed, p.Log, known)
	if err != nil {
		return nil, err
	}
	if len(cosignatures) < p.Quorum {
		return nil, fmt.Errorf("%w: %d of %d", ErrQuorum, len(cosignatures), p.Quorum)
	}
	c, err := parseText(text)
	if err != nil {
		return nil, err
	}
	if c.Origin != p.Log.name {
		return nil, fmt.Errorf("%w: origin %.60q is not the name of its key", ErrSignature, c.Origin)
	}
	return &Signed{Checkpoint: c, Text: text, Cosignatures: cosignatures}, nil
}

// openNote checks all known signatures of a note.
func openNote(signed string, log Key, known []note.Verifier) (text string, cosignatures []Cosignature, err error) {
	if len(signed) > MaxNote {
		return "", nil, fmt.Errorf("%w: checkpoint of %d bytes", ErrMalformed, len(signed))
	}
	opened, err := note.Open([]byte(signed), note.VerifierList(known...))
	var wrong *note.InvalidSignatureError
	var unknown *note.UnverifiedNoteError
	switch {
	case errors.As(err, &wrong), errors.As(err, &unknown):
		return "", nil, fmt.Errorf("%w: %w", ErrSignature, err)
	case err != nil:
		return "", nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	byLog := false
	for _, signature := range opened.Sigs {
		if !isStrict(signature.Base64) {
			return "", nil, fmt.Errorf("%w: signature of %.60q in another spelling", ErrMalformed, signature.Name)
		}
		key, ok := keyOf(signature, known)
		if ok && key.IsWitness() {
			cosignatures = append(cosignatures, Cosignature{Key: key, Time: timeOf(signature)})
		}
		byLog = byLog || ok && key == log
	}
	if !byLog {
		return "", nil, ErrSignature
	}
	return opened.Text, cosignatures, nil
}

// isStrict reports whether text is the one spelling of its bytes: the bits that
// base64 leaves over are outside every signature, and anyone could change them.
func isStrict(text string) bool {
	_, err := base64.StdEncoding.Strict().DecodeString(text)
	return err == nil
}

func keyOf(signature note.Signature, known []note.Verifier) (Key, bool) {
	for _, verifier := range known {
		if verifier.Name() == signature.Name && verifier.KeyHash() == signature.Hash {
			key, ok := verifier.(Key)
			return key, ok
		}
	}
	return Key{}, false
}

// timeOf reads the time of a cosignature that was verified.
func timeOf(signature note.Signature) time.Time {
	data, err := base64.StdEncoding.DecodeString(signature.Base64)
	if err != nil || len(data) < 4+timestampSize {
		return time.Time{}
	}
	return time.Unix(int64(binary.BigEndian.Uint64(data[4:])), 0)
}

// Unverified reads a signed checkpoint without checking any signature, to find
// out whose it claims to be. ErrMalformed.
func Unverified(signed string) (Checkpoint, error) {
	if len(signed) > MaxNote {
		return Checkpoint{}, fmt.Errorf("%w: checkpoint of %d bytes", ErrMalformed, len(signed))
	}
	split := strings.LastIndex(signed, "\n\n")
	if split < 0 {
		return Checkpoint{}, fmt.Errorf("%w: checkpoint without signatures", ErrMalformed)
	}
	return parseText(signed[:split+1])
}
