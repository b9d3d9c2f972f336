package bridge

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/card"
	"github.com/parleykit/parley/protocol/envelope"
)

// ErrItem means that bytes are no event a bridge moves.
var ErrItem = errors.New("bridge: not an event to move")

// longestLife is what is kept of an id whose event names no expiry or a far one.
const longestLife = 32 * 24 * time.Hour

// ParseItem checks the bytes of an event: size, shape, id, signature and tags.
// Its error wraps ErrItem. created is when the event says it was made.
func ParseItem(data []byte, now time.Time) (item Item, created int64, err error) {
	return parseItem(data, now, true)
}

// parseItem is ParseItem that leaves out what was verified before.
func parseItem(data []byte, now time.Time, verify bool) (item Item, created int64, err error) {
	if len(data) > MaxEvent {
		return Item{}, 0, fmt.Errorf("%w: %d bytes", ErrItem, len(data))
	}
	ev, err := canonical.DecodeEvent(data)
	if err != nil || verify && !ev.CheckID() {
		return Item{}, 0, fmt.Errorf("%w: form or id", ErrItem)
	}
	item = Item{ID: ev.ID, Kind: ev.Kind, PubKey: ev.PubKey, Expires: now.Add(longestLife)}
	if err := item.readTags(ev.Tags); err != nil {
		return Item{}, 0, err
	}
	if ev.Kind == card.Kind {
		if _, err := card.Parse(ev, now); err != nil {
			return Item{}, 0, fmt.Errorf("%w: %w", ErrItem, err)
		}
	}
	if verify {
		if valid, err := ev.CheckSignature(); err != nil || !valid {
			return Item{}, 0, fmt.Errorf("%w: signature", ErrItem)
		}
	}
	if item.Event, err = canonical.EncodeEvent(ev); err != nil || len(item.Event) > MaxEvent {
		return Item{}, 0, fmt.Errorf("%w: size", ErrItem)
	}
	return item, int64(ev.CreatedAt), nil
}

func (i *Item) readTags(tags nostr.Tags) error {
	for _, tag := range tags {
		if len(tag) < 2 {
			continue
		}
		switch {
		case tag[0] == "p" && i.Kind == envelope.KindWrap:
			if i.Recipient != "" || !canonical.IsHex(tag[1], 32) {
				return fmt.Errorf("%w: recipient", ErrItem)
			}
			i.Recipient = tag[1]
		case tag[0] == "d" && i.D == "":
			i.D = tag[1]
		case tag[0] == "expiration":
			at, err := strconv.ParseInt(tag[1], 10, 64)
			if err != nil || at < 0 {
				return fmt.Errorf("%w: expiration", ErrItem)
			}
			if at < i.Expires.Unix() {
				i.Expires = time.Unix(at, 0)
			}
		}
	}
	if i.Kind == envelope.KindWrap && i.Recipient == "" || i.Kind == card.Kind && len(i.D) > 256 {
		return fmt.Errorf("%w: tags", ErrItem)
	}
	return nil
}

// lane is within which the order is kept.
func (i *Item) lane() string {
	if i.Recipient != "" {
		return i.Recipient
	}
	return i.PubKey
}

// storedItem reads an event that was verified before it was stored.
func storedItem(data []byte, expires time.Time) (Item, error) {
	ev, err := canonical.DecodeEvent(data)
	if err != nil {
		return Item{}, fmt.Errorf("%w: %w", ErrItem, err)
	}
	item := Item{ID: ev.ID, Kind: ev.Kind, PubKey: ev.PubKey, Event: data, Expires: expires}
	return item, item.readTags(ev.Tags)
}
