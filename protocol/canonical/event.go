package canonical

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/nbd-wtf/go-nostr"
)

// event is the JSON object of NIP-01, its keys in the order they are written.
type event struct {
	ID        string     `json:"id"`
	PubKey    string     `json:"pubkey"`
	CreatedAt int64      `json:"created_at"`
	Kind      int        `json:"kind"`
	Tags      [][]string `json:"tags"`
	Content   *string    `json:"content"`
	Sig       string     `json:"sig,omitzero"`
}

// EncodeEvent writes a Nostr event as the one sequence of bytes Parley gives
// to carriers: keys id, pubkey, created_at, kind, tags, content, sig, no
// spaces, strings escaped as NIP-01 says. An unsigned event has no sig. Text
// that is not UTF-8 is an error.
func EncodeEvent(ev *nostr.Event) ([]byte, error) {
	shape := event{
		ID: ev.ID, PubKey: ev.PubKey, CreatedAt: int64(ev.CreatedAt), Kind: ev.Kind,
		Tags: make([][]string, len(ev.Tags)), Content: &ev.Content, Sig: ev.Sig,
	}
	for i, tag := range ev.Tags {
		shape.Tags[i] = tag
	}
	data, err := json.Marshal(&shape)
	if err != nil {
		return nil, fmt.Errorf("canonical: encoding an event: %w", err)
	}
	return data, nil
}

// DecodeEvent reads one Nostr event without tolerance: exactly the keys of
// NIP-01 in any order, sig alone optional, id, pubkey and sig in lowercase hex
// of their length, kind 0 to 65535, created_at not negative. Neither id nor
// signature is checked against the content. Errors wrap ErrNotIJSON or
// ErrShape.
func DecodeEvent(data []byte) (*nostr.Event, error) {
	if err := Check(data); err != nil {
		return nil, err
	}
	return decodeEvent(data)
}

func decodeEvent(data []byte) (*nostr.Event, error) {
	shape := event{CreatedAt: -1, Kind: -1}
	if err := unmarshal(data, &shape); err != nil {
		return nil, err
	}
	if name := shape.defect(); name != "" {
		return nil, fmt.Errorf("%w: event without a valid %s", ErrShape, name)
	}
	ev := &nostr.Event{
		ID: shape.ID, PubKey: shape.PubKey, CreatedAt: nostr.Timestamp(shape.CreatedAt), Kind: shape.Kind,
		Tags: make(nostr.Tags, len(shape.Tags)), Content: *shape.Content, Sig: shape.Sig,
	}
	for i, tag := range shape.Tags {
		ev.Tags[i] = tag
	}
	return ev, nil
}

// defect names the first key that is absent or out of range.
func (e *event) defect() string {
	switch {
	case !IsHex(e.ID, 32):
		return "id"
	case !IsHex(e.PubKey, 32):
		return "pubkey"
	case e.CreatedAt < 0:
		return "created_at"
	case e.Kind < 0 || e.Kind > 65535:
		return "kind"
	case e.Tags == nil:
		return "tags"
	case e.Content == nil:
		return "content"
	case e.Sig != "" && !IsHex(e.Sig, 64):
		return "sig"
	}
	return ""
}
