package logproof

import (
	"bytes"
	"fmt"

	"golang.org/x/mod/sumdb/note"
)

// Alone is the proof without extra data and with the signature of the log's key
// and no other: what others cosigned is not covered by anything that holds the
// proof itself. ErrMalformed, ErrSignature.
func (p *Proof) Alone(log Key) (*Proof, error) {
	opened, err := note.Open([]byte(p.Checkpoint), note.VerifierList(log))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	text := bytes.NewBufferString(opened.Text)
	fmt.Fprintf(text, "\n\u2014 %s %s\n", opened.Sigs[0].Name, opened.Sigs[0].Base64)
	return &Proof{Index: p.Index, Path: p.Path, Checkpoint: text.String()}, nil
}
