package carrier

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parleykit/parley/protocol/message"
)

// What a venue tells the participants of a room is sent again until they ack
// it, contacts or not: nobody else can tell them, and a relay may lose it. That
// somebody was named in a proposal bounds the number of times.
var memberTypes = map[string]bool{
	message.TypeAgreementInvite: true, message.TypeAgreementEvent: true, message.TypeAgreementArtifact: true,
}

const maxMemberRounds = 12 // at most some 17 hours with the default Resend

// wantsAck reports whether a message is sent again until it is acked.
func wantsAck(typ string, contact bool, rounds int) bool {
	if message.Types[typ].Unanswered {
		return false
	}
	return contact || memberTypes[typ] && rounds < maxMemberRounds
}

// addresses asks for the recipient's addresses and keeps those that a carrier
// can serve, best first: what worked last, then by priority. For an answer it
// keeps those of the carrier that brought the question, if there are any.
func (e *Engine) addresses(ctx context.Context, a *attempt) ([]Address, error) {
	ctx, cancel := context.WithTimeout(ctx, e.opts.SendTimeout)
	defer cancel()
	all, err := e.opts.Resolve(ctx, a.recipient)
	if err != nil {
		return nil, err
	}
	usable := slices.DeleteFunc(slices.Clone(all), func(to Address) bool { return e.carriers[to.Scheme] == nil })
	other := func(to Address) bool { return to.Scheme != a.scheme }
	if a.scheme != "" && !slices.ContainsFunc(usable, func(to Address) bool { return !other(to) }) {
		a.scheme = "" // it writes by a carrier it cannot be answered by
	}
	if a.answerFails() {
		a.scheme = "" // the carrier that brought the question has gone since
	}
	if a.scheme != "" {
		usable = slices.DeleteFunc(usable, other)
	}
	slices.SortStableFunc(usable, func(x, y Address) int {
		return cmp.Or(cmp.Compare(a.rank(x), a.rank(y)), cmp.Compare(x.Priority, y.Priority))
	})
	return usable[:min(len(usable), maxAddresses)], nil
}

// answerFails reports whether an answer was tried in vain by the carrier that brought
// the question.
func (a *attempt) answerFails() bool {
	return a.scheme != "" && slices.ContainsFunc(a.targets, func(t *target) bool {
		return t.Scheme == a.scheme && t.State != StateSent && t.Attempts > 0
	})
}

// rank is 0 for the address that worked last and 1 for every other.
func (a *attempt) rank(to Address) int {
	if a.worked == (endpoint{to.Scheme, to.Address}) {
		return 0
	}
	return 1
}

// aim makes the addresses the targets, in their order. Ones that were tried
// before and are no longer named stay only if they took the message.
func (a *attempt) aim(addresses []Address) {
	tried := a.targets
	before := make(map[endpoint]*target)
	for _, t := range tried {
		before[endpoint{t.Scheme, t.Address}] = t
	}
	a.targets = nil
	for _, to := range addresses {
		key := endpoint{to.Scheme, to.Address}
		t, known := before[key]
		if !known {
			t = &target{to: to, Delivery: Delivery{Scheme: to.Scheme, Address: to.Address, State: StateQueued}}
		} else if t == nil {
			continue // named twice
		}
		before[key] = nil
		a.targets = append(a.targets, t)
	}
	for _, t := range tried {
		if before[endpoint{t.Scheme, t.Address}] == nil {
			continue
		}
		if t.State == StateQueued {
			t.State, t.Reason, t.tried = StateDead, "address no longer named", true
		}
		a.targets = append(a.targets, t)
	}
}

// deliver finds the recipient's addresses and sends to the best of them. Where
// one fails the next takes its place at once.
func (e *Engine) deliver(ctx context.Context, a *attempt) {
	addresses, err := e.addresses(ctx, a)
	if err != nil {
		a.reason = "finding an address: " + err.Error()
		return
	}
	if len(addresses) == 0 {
		a.reason = unknownReason
	}
	a.aim(addresses)
	wanted := a.start(e.now(), e.opts.Parallel, e.opts.Fallback)
	for _, t := range a.targets {
		if t.only != nil {
			e.sendTo(ctx, a, t)
			t.State, t.wraps = StateSent, len(a.wraps) // whatever came of it: the next nack or round repeats it
			return
		}
	}
	for ctx.Err() == nil {
		chosen := a.choose(wanted)
		if len(chosen) == 0 {
			return
		}
		var group sync.WaitGroup
		for _, t := range chosen {
			t.chosen = true
			group.Go(func() { e.sendTo(ctx, a, t) })
		}
		group.Wait()
	}
}

// start begins an attempt and returns how many addresses shall have taken the
// message after it. Where an ack is awaited that is parallel, or, when none
// came for the time of fallback, as many more than have it. Where none is
// awaited all get it. A round of resending starts the addresses that took it
// anew.
func (a *attempt) start(now time.Time, parallel int, fallback time.Duration) int {
	again := a.wantsAck && !now.Before(a.resendAt)
	if len(a.wanted) > 0 && !again && a.startWanted() {
		return 1
	}
	if !a.wantsAck {
		return len(a.targets)
	}
	have := 0
	for _, t := range a.targets {
		if t.State != StateSent {
			continue
		}
		have++
		if again {
			t.State, t.wraps = StateQueued, 0
		}
	}
	switch {
	case have == 0:
		return parallel
	case !now.Before(a.sentAt.Add(fallback)):
		return have + parallel
	}
	return max(have, parallel)
}

// startWanted makes the best of the addresses that have the message the one
// that gets the wraps its recipient asked for; false when none has it.
func (a *attempt) startWanted() bool {
	for _, t := range a.targets {
		if t.State == StateSent {
			t.only, t.wraps = a.wanted, 0
			return true
		}
	}
	return false
}

// choose picks the best addresses that have not been tried in this attempt, as
// many as are missing.
func (a *attempt) choose(wanted int) (chosen []*target) {
	for _, t := range a.targets {
		if t.State == StateSent {
			wanted--
		}
	}
	for _, t := range a.targets {
		if len(chosen) < wanted && t.State == StateQueued && !t.chosen {
			chosen = append(chosen, t)
		}
	}
	return chosen
}

// lastRoute is the address by which the recipient was last known to be reached.
func lastRoute(ctx context.Context, tx *sql.Tx, recipient string) (at endpoint, err error) {
	err = tx.QueryRowContext(ctx, "SELECT scheme, address FROM carrier_routes WHERE recipient = $1", recipient).Scan(&at.scheme, &at.address)
	if errors.Is(err, sql.ErrNoRows) {
		return endpoint{}, nil
	}
	return at, err
}

// saveRoute remembers what worked when an ack came: an address of the ack's
// carrier, or else any, and of several the one that got the message last, since
// the others had had it for a while.
func saveRoute(ctx context.Context, tx *sql.Tx, recipient string, outboxSeq int64, scheme string, now time.Time) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO carrier_routes (recipient, scheme, address, worked_at)
		SELECT CAST($1 AS TEXT), scheme, address, CAST($2 AS BIGINT) FROM carrier_deliveries WHERE outbox_seq = $3 AND state = 'sent'
		ORDER BY CASE WHEN scheme = $4 THEN 0 ELSE 1 END, sent_ms DESC LIMIT 1
		ON CONFLICT (recipient) DO UPDATE SET scheme = excluded.scheme, address = excluded.address, worked_at = excluded.worked_at`,
		recipient, now.Unix(), outboxSeq, scheme)
	return err
}
