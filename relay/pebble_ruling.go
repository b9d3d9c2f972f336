package relay

import (
	"context"
	"fmt"
	"strconv"

	"github.com/cockroachdb/pebble/v2"
	"github.com/go-json-experiment/json"
)

// key is where the embedded store keeps the ruling.
func (one Ruling) key() []byte {
	return append(append(append([]byte{tableRuling}, one.List...), 0), one.Subject...)
}

// Rulings implements Store.
func (s *pebbleStore) Rulings(ctx context.Context, since string) (all []Ruling, version string, err error) {
	if err := s.enter(); err != nil {
		return nil, "", err
	}
	defer s.life.RUnlock()
	snap := s.db.NewSnapshot()
	defer snap.Close()
	number, _, err := getNumber(snap, []byte{tableRuling})
	if err != nil {
		return nil, "", err
	}
	if version = strconv.FormatInt(number, 10); version == since {
		return nil, version, nil
	}
	it, err := snap.NewIterWithContext(ctx, &pebble.IterOptions{
		LowerBound: []byte{tableRuling, 0}, UpperBound: []byte{tableRuling + 1},
	})
	if err != nil {
		return nil, "", fmt.Errorf("reading rulings: %w", err)
	}
	defer it.Close()
	for valid := it.First(); valid; valid = it.Next() {
		var one Ruling
		if err := json.Unmarshal(it.Value(), &one); err != nil {
			return nil, "", fmt.Errorf("reading ruling: %w", err)
		}
		all = append(all, one)
	}
	return all, version, it.Error()
}

// Rule implements Store.
func (s *pebbleStore) Rule(_ context.Context, record, withdraw []Ruling) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.life.RUnlock()
	s.writing.Lock()
	defer s.writing.Unlock()

	tx := pebbleTx{s.db.NewIndexedBatch()}
	defer tx.Close()
	version, _, err := getNumber(tx, []byte{tableRuling})
	if err != nil {
		return err
	}
	for _, one := range withdraw {
		if err := tx.Delete(one.key(), nil); err != nil {
			return err
		}
	}
	for _, one := range record {
		value, err := json.Marshal(one)
		if err != nil {
			return fmt.Errorf("writing ruling: %w", err)
		}
		if err := tx.Set(one.key(), value, nil); err != nil {
			return err
		}
	}
	if err := tx.Set([]byte{tableRuling}, number(version+1), nil); err != nil {
		return err
	}
	return s.commit(tx)
}
