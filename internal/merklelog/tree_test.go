package merklelog_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/merklelog"
	"github.com/parleykit/parley/protocol/logproof"
)

// plan is a sequence of entries with a checkpoint after each run of them; an
// entry may come several times.
type plan []struct{ First, N int }

// plans go beyond the width of a tile now and then.
var plans = rapid.Custom(func(rt *rapid.T) plan {
	p := make(plan, rapid.IntRange(1, 5).Draw(rt, "rounds"))
	for i := range p {
		p[i].First = rapid.IntRange(0, 700).Draw(rt, "first")
		p[i].N = rapid.SampledFrom([]int{1, 2, 3, 100, 300, 600}).Draw(rt, "entries")
	}
	return p
})

// Any sequence of appends, repeated appends and checkpoints makes the tree that
// golang.org/x/mod makes in memory: the same roots, tiles, places and proofs.
func TestLog_isTheTreeInMemory(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		db := databasetest.Open(t)
		var logs atomic.Int64
		rapid.Check(t, func(rt *rapid.T) {
			followPlan(t, db, fmt.Sprintf("log%d.example", logs.Add(1)), plans.Draw(rt, "plan"))
			if t.Failed() {
				rt.FailNow()
			}
		})
	})
	t.Run("edges of tiles", func(t *testing.T) {
		edges := plan{{0, 255}, {255, 1}, {256, 255}, {511, 2}, {513, 255}, {0, 768}, {768, 256}}
		followPlan(t, databasetest.Open(t), origin, edges)
	})
	t.Run("postgres", func(t *testing.T) {
		db := databasetest.OpenPostgres(t)
		for seed := range 8 {
			followPlan(t, db, fmt.Sprintf("log%d.example", seed), plans.Example(seed))
		}
	})
}

func followPlan(t *testing.T, db *database.DB, name string, p plan) {
	t.Helper()
	l := newLog(t, db, func(o *merklelog.Options) { o.Origin = name })
	m, places := new(plain), make(map[int]int64)
	for _, round := range p {
		var leaves [][]byte
		for i := round.First; i < round.First+round.N; i++ {
			leaves = append(leaves, leaf(i))
			if _, found := places[i]; !found {
				places[i] = m.size
				m.add(t, leaf(i))
			}
		}
		bulk(t, db, name, leaves[:round.N-1])
		add(t, db, l, leaves[round.N-1], leaves[0])
		want := m.checkpoint(t)
		want.Origin = name
		if got := integrate(t, l); got != want || openCheckpoint(t, l).Checkpoint != want {
			t.Errorf("checkpoint %v, signed %v, want %v", got, openCheckpoint(t, l).Checkpoint, want)
		}
		for _, i := range []int{round.First, round.First + round.N/2, round.First + round.N - 1} {
			sameProof(t, l, i, places[i])
		}
	}
	sameTiles(t, l, m)
}

func sameTiles(t *testing.T, l *merklelog.Log, m *plain) {
	t.Helper()
	for _, tile := range tlog.NewTiles(8, 0, m.size) {
		for _, width := range []int{tile.W, 1} {
			tile.W = width
			want, err := tlog.ReadTileData(tile, m)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := l.Tile(t.Context(), tile); err != nil || !bytes.Equal(got, want) {
				t.Errorf("tile %v: %d bytes, want %d, %v", tile, len(got), len(want), err)
			}
		}
	}
}

func sameProof(t *testing.T, l *merklelog.Log, i int, place int64) {
	t.Helper()
	proof, err := l.Proof(t.Context(), leaf(i))
	if err != nil {
		t.Fatal(err)
	}
	entry, err := logproof.Verify(leaf(i), proof.String(), logproof.Policy{Log: l.Key()})
	if err != nil || entry.Index != place {
		t.Errorf("entry %d: %+v, %v", i, entry, err)
	}
}
