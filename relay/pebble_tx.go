package relay

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/nbd-wtf/go-nostr"
)

// pebbleTx is one transaction: a batch whose own writes are seen by its reads.
type pebbleTx struct{ *pebble.Batch }

// decide is the outcome rec would have. It reads only direct keys.
func decide(r pebble.Reader, rec *Record, quota int) (Outcome, error) {
	ev := rec.Event
	if _, found, err := get(r, eventKey(ev.ID)); err != nil || found {
		return Duplicate, err
	}
	if outcome, err := decideDeleted(r, ev); err != nil || outcome != Stored {
		return outcome, err
	}
	if a, ok := addressOf(ev); ok {
		at, id, found, err := currentVersion(r, a)
		if err != nil || (found && !newer(ev.CreatedAt, ev.ID, at, id)) {
			return Stale, err
		}
	}
	if rec.Recipient != "" {
		n, _, err := getNumber(r, quotaKey(rec.Recipient))
		if err != nil || n >= int64(quota) {
			return OverQuota, err
		}
	}
	return Stored, nil
}

// decideDeleted is Deleted for an event that its author deleted, Stale for a
// request to vanish when a later one was made, or Stored.
func decideDeleted(r pebble.Reader, ev *nostr.Event) (Outcome, error) {
	at, vanished, err := getNumber(r, vanishedKey(ev.PubKey))
	if err != nil {
		return 0, err
	}
	if vanished && int64(ev.CreatedAt) <= at {
		if ev.Kind == kindVanish {
			return Stale, nil
		}
		return Deleted, nil
	}
	if deleted, err := isDeleted(r, ev); err != nil || deleted {
		return Deleted, err
	}
	return Stored, nil
}

// isDeleted looks for a deletion by the event's own author. Requests to delete
// and to vanish cannot be deleted (NIP-09, NIP-62).
func isDeleted(r pebble.Reader, ev *nostr.Event) (bool, error) {
	if ev.Kind == kindDeletion || ev.Kind == kindVanish {
		return false, nil
	}
	if _, found, err := getNumber(r, deletedIDKey(ev.ID, ev.PubKey)); err != nil || found {
		return found, err
	}
	a, ok := addressOf(ev)
	if !ok {
		return false, nil
	}
	at, found, err := getNumber(r, a.key(tableDeletedAt))
	return found && int64(ev.CreatedAt) <= at, err
}

// currentVersion returns the time and id of the stored version of a.
func currentVersion(r pebble.Reader, a address) (nostr.Timestamp, string, bool, error) {
	v, found, err := get(r, a.key(tableAddress))
	if err != nil || !found || len(v) != tailSize {
		return 0, "", false, err
	}
	return nostr.Timestamp(binary.BigEndian.Uint64(v)), hex.EncodeToString(v[8:]), true, nil
}

// add decides rec and writes it when it is to be stored.
func (tx pebbleTx) add(rec *Record, quota int) (Outcome, error) {
	outcome, err := decide(tx, rec, quota)
	if err != nil || outcome != Stored {
		return outcome, err
	}
	if err := tx.replace(rec.Event); err != nil {
		return 0, err
	}
	switch rec.Event.Kind {
	case kindDeletion:
		err = tx.applyDeletion(rec.Event)
	case kindVanish:
		err = tx.vanish(rec.Event)
	}
	if err != nil {
		return 0, err
	}
	return Stored, tx.put(rec)
}

// replace removes the version that ev takes the place of and points the
// address at ev.
func (tx pebbleTx) replace(ev *nostr.Event) error {
	a, ok := addressOf(ev)
	if !ok {
		return nil
	}
	_, id, found, err := currentVersion(tx, a)
	if err != nil {
		return err
	}
	if found {
		if err := tx.remove(id); err != nil {
			return err
		}
	}
	v := appendHex(number(int64(ev.CreatedAt)), ev.ID)
	return tx.Set(a.key(tableAddress), v, nil)
}

// put writes the record and its index keys.
func (tx pebbleTx) put(rec *Record) error {
	if err := tx.Set(eventKey(rec.Event.ID), encodeRecord(rec), nil); err != nil {
		return err
	}
	for _, key := range indexKeys(rec) {
		if err := tx.Set(key, nil, nil); err != nil {
			return err
		}
	}
	return tx.count(rec.Recipient, 1)
}

// count changes the number of events of a recipient.
func (tx pebbleTx) count(recipient string, by int64) error {
	if recipient == "" {
		return nil
	}
	key := quotaKey(recipient)
	n, _, err := getNumber(tx, key)
	if err != nil {
		return err
	}
	if n += by; n <= 0 {
		return tx.Delete(key, nil)
	}
	return tx.Set(key, number(n), nil)
}

// remove takes out a stored event with everything that leads to it. An id
// that is not stored is no error.
func (tx pebbleTx) remove(id string) error {
	v, found, err := get(tx, eventKey(id))
	if err != nil || !found {
		return err
	}
	rec, err := decodeRecord(v)
	if err != nil {
		return err
	}
	if rec.Event.Kind == kindDeletion {
		if err := tx.forgetDeletion(rec.Event); err != nil {
			return err
		}
	}
	return tx.takeOut(rec)
}

// takeOut is remove for an event that was read; what a deletion request asked
// for stays deleted.
func (tx pebbleTx) takeOut(rec *Record) error {
	if err := tx.Delete(eventKey(rec.Event.ID), nil); err != nil {
		return err
	}
	for _, key := range indexKeys(rec) {
		if err := tx.Delete(key, nil); err != nil {
			return err
		}
	}
	if err := tx.forgetAddress(rec.Event); err != nil {
		return err
	}
	return tx.count(rec.Recipient, -1)
}

// forgetAddress removes the address key when it still leads to ev.
func (tx pebbleTx) forgetAddress(ev *nostr.Event) error {
	a, ok := addressOf(ev)
	if !ok {
		return nil
	}
	_, id, found, err := currentVersion(tx, a)
	if err != nil || !found || id != ev.ID {
		return err
	}
	return tx.Delete(a.key(tableAddress), nil)
}

// applyDeletion removes what the deletion request names and remembers it, so
// that nothing of it is stored again (NIP-09).
func (tx pebbleTx) applyDeletion(del *nostr.Event) error {
	ids, addresses := deletionTargets(del)
	for _, id := range ids {
		if err := tx.deleteID(id, del); err != nil {
			return err
		}
	}
	for _, a := range addresses {
		if err := tx.deleteAddress(a, del); err != nil {
			return err
		}
	}
	return nil
}

// deleteID is kept under the id and the key of who asked: it never holds for
// an event of somebody else.
func (tx pebbleTx) deleteID(id string, del *nostr.Event) error {
	if err := tx.Set(deletedIDKey(id, del.PubKey), number(int64(del.CreatedAt)), nil); err != nil {
		return err
	}
	v, found, err := get(tx, eventKey(id))
	if err != nil || !found {
		return err
	}
	h, err := decodeHeader(v)
	if err != nil || h.pubkey != del.PubKey || h.kind == kindDeletion || h.kind == kindVanish {
		return err
	}
	return tx.remove(id)
}

// deleteAddress deletes the versions up to the time of the request.
func (tx pebbleTx) deleteAddress(a address, del *nostr.Event) error {
	if err := tx.bury(a, int64(del.CreatedAt)); err != nil {
		return err
	}
	at, id, found, err := currentVersion(tx, a)
	if err != nil || !found || at > del.CreatedAt {
		return err
	}
	return tx.remove(id)
}

// bury remembers that the versions of a up to a time are deleted.
func (tx pebbleTx) bury(a address, until int64) error {
	key := a.key(tableDeletedAt)
	before, found, err := getNumber(tx, key)
	if err != nil || found && before >= until {
		return err
	}
	return tx.Set(key, number(until), nil)
}

// forgetDeletion drops what applyDeletion remembered, unless another request
// says the same by now.
func (tx pebbleTx) forgetDeletion(del *nostr.Event) error {
	ids, addresses := deletionTargets(del)
	var keys [][]byte
	for _, id := range ids {
		keys = append(keys, deletedIDKey(id, del.PubKey))
	}
	for _, a := range addresses {
		keys = append(keys, a.key(tableDeletedAt))
	}
	for _, key := range keys {
		at, found, err := getNumber(tx, key)
		if err != nil {
			return err
		}
		if !found || at != int64(del.CreatedAt) {
			continue
		}
		if err := tx.Delete(key, nil); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes the event an expiration key names, and the key in any case.
func (tx pebbleTx) sweep(key []byte) error {
	if len(key) == 1+8+idSize {
		if err := tx.remove(hex.EncodeToString(key[9:])); err != nil {
			return err
		}
	}
	return tx.Delete(append([]byte(nil), key...), nil)
}

// commit makes the transaction durable.
func (tx pebbleTx) commit() error {
	if tx.Empty() {
		return nil
	}
	if err := tx.Commit(pebble.Sync); err != nil {
		return fmt.Errorf("committing events: %w", err)
	}
	return nil
}
