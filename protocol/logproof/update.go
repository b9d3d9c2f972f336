package logproof

import (
	"fmt"
	"strconv"
	"strings"
)

// Update asks a witness to cosign a checkpoint: the body of C2SP tlog-witness
// add-checkpoint.
type Update struct {
	OldSize    int64  // of the checkpoint that the witness cosigned last
	Path       []Hash // consistency proof from it to the new one
	Checkpoint string // the new one, signed by the log
}

// String is the text that ParseUpdate reads.
func (u *Update) String() string {
	return "old " + strconv.FormatInt(u.OldSize, 10) + "\n" + hashLines(u.Path) + "\n" + u.Checkpoint
}

// ParseUpdate reads a request and checks its form alone. ErrMalformed.
func ParseUpdate(text string) (*Update, error) {
	if len(text) > MaxProof {
		return nil, fmt.Errorf("%w: request of %d bytes", ErrMalformed, len(text))
	}
	head, signed, found := strings.Cut(text, "\n\n")
	if !found {
		return nil, fmt.Errorf("%w: request without checkpoint", ErrMalformed)
	}
	u := &Update{Checkpoint: signed}
	var err error
	u.OldSize, u.Path, err = parseNumbered("old ", strings.Split(head, "\n"))
	if err != nil {
		return nil, err
	}
	if _, err := Unverified(signed); err != nil {
		return nil, err
	}
	return u, nil
}
