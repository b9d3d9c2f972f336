package conformance

import (
	"strconv"
	"strings"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip13"
)

// workChecks are about NIP-13.
var workChecks = []Check{
	conditional("nip13.event-with-work-is-taken", 13, "an event with the work the relay asks for, or eight bits, is taken and served with its nonce", func(t *trial) {
		k, at := t.key(), nostr.Now()
		bits := max(8, t.info.Limitation.MinPowDifficulty)
		ev := k.plain(t.options.Kinds.Replaceable, at, "{}", k.worked(t.options.Kinds.Replaceable, at, "{}", t.marks(at), bits))
		t.unchanged(ev)
	}),
	conditional("nip13.event-without-work-is-refused", 13, "an event without the work the relay asks for is refused with \"pow:\"", func(t *trial) {
		least := t.leastWork()
		k := t.key()
		for i := range 1000 {
			ev := k.plain(t.options.Kinds.Replaceable, nostr.Now(), strconv.Itoa(i), t.marks(0))
			if nip13.Difficulty(ev.ID) < least {
				t.lazy("an event without work", ev)
				return
			}
		}
		t.inconclusivef("a thousand events had the work by luck")
	}),
	conditional("nip13.luck-does-not-count", 13, "an event that commits to less work than asked for is refused, whatever its id", func(t *trial) {
		least := t.leastWork()
		k, at := t.key(), nostr.Now()
		for i := range 1 << (maxWork + 1) {
			tags := append(t.marks(at), nostr.Tag{"nonce", strconv.Itoa(i), strconv.Itoa(least - 1)})
			ev := nostr.Event{PubKey: k.pub, CreatedAt: at, Kind: t.options.Kinds.Replaceable, Tags: tags, Content: "{}"}
			if nip13.Difficulty(ev.GetID()) >= least {
				t.lazy("an event that commits to less", k.plain(ev.Kind, at, "{}", tags))
				return
			}
		}
		t.inconclusivef("the work was not found")
	}),
}

// leastWork is what the relay asks for.
func (t *trial) leastWork() int {
	least := t.info.Limitation.MinPowDifficulty
	if least <= 0 || least > maxWork {
		t.skipf("min_pow_difficulty is %d", least)
	}
	return least
}

func (t *trial) lazy(what string, ev nostr.Event) {
	if ok := t.dial().refuse(what, ev); !strings.HasPrefix(ok.text, "pow:") {
		t.failf("%s was refused with %q", what, ok.text)
	}
}
