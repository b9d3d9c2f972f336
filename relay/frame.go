package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"

	"github.com/fiatjaf/eventstore"
	"github.com/fiatjaf/khatru"
	"github.com/nbd-wtf/go-nostr"
)

// answer is what an EVENT is answered with.
type answer struct {
	ok     bool
	text   string
	result string // label of the metric
}

// submission is one EVENT on its way from a connection to the store and back.
type submission struct {
	rec     *Record
	size    int // in the account of the session
	session *session
	// settled is the answer when the event need not be stored.
	settled *answer
	// handed is set once the committer has the event and will answer it.
	handed bool
	// before is closed when the EVENT before it on the connection had its turn,
	// after when this one had. Nil stands for no other.
	before <-chan struct{}
	after  chan struct{}
}

// pass waits for the turn of the submission and gives it to the next.
func (s *submission) pass() {
	s.wait()
	if s.after != nil {
		close(s.after)
	}
}

// wait returns when the EVENTs before it had their turn. They do in any case, so
// nothing else ends the wait.
func (s *submission) wait() {
	if s.before != nil {
		<-s.before
	}
}

type submissionKey struct{}

// submissionOf returns the submission of the context given to AddEvent.
func submissionOf(ctx context.Context) *submission {
	sub, _ := ctx.Value(submissionKey{}).(*submission)
	return sub
}

// errNoSubmission is returned to khatru for an event that did not come
// through submit.
var errNoSubmission = errors.New("error: event did not come from a connection")

// newFrame sets khatru up as the order of checks in front of the store.
//
// What khatru does by itself is kept away from the path of an event:
// QueryEvents stays unset, so that it asks for deletions nowhere (the store
// knows them, with their authors), and the store hooks answer ErrDupEvent for
// an event that was handed over, which is khatru's word for "taken care of":
// it neither broadcasts the event nor notes its expiration in memory.
func (r *Relay) newFrame() *khatru.Relay {
	frame := khatru.NewRelay()
	frame.Log = log.New(io.Discard, "", 0)
	frame.ServiceURL = r.opts.Origin
	frame.RejectEvent = []func(context.Context, *nostr.Event) (bool, string){
		rejectEmptyTag, // must be the first
		r.rejectKind,
		r.rejectPolicy,
		r.rejectRate,
		rejectID,
		r.rejectKnown,
		r.rejectSignature,
		r.rejectKeyRate, // nobody uses up the rate of another key
		r.rejectPlugin,  // the dearest; it sees nothing that is not valid
	}
	frame.StoreEvent = []func(context.Context, *nostr.Event) error{r.handOver}
	frame.ReplaceEvent = []func(context.Context, *nostr.Event) error{r.handOver}
	return frame
}

// submit takes the event through the checks and hands it to the committer.
// It returns the answer, or nil when the committer will give it.
func (r *Relay) submit(ctx context.Context, sub *submission) (a *answer) {
	defer func() {
		if p := recover(); p != nil {
			r.panicked(ctx, p)
			if !sub.handed {
				a = refusal("error: the event could not be handled")
			}
		}
	}()
	_, err := r.frame.AddEvent(context.WithValue(ctx, submissionKey{}, sub), sub.rec.Event)
	switch {
	case sub.handed:
		return nil
	case sub.settled != nil:
		return sub.settled
	case err != nil:
		return refusal(err.Error())
	}
	return refusal("error: the event was not stored")
}

// handOver is the store hook: the committer decides and answers.
func (r *Relay) handOver(ctx context.Context, _ *nostr.Event) error {
	sub := submissionOf(ctx)
	if sub == nil {
		return errNoSubmission
	}
	sub.wait()
	if err := r.committer.enqueue(ctx, sub); err != nil {
		return fmt.Errorf("error: %w", err)
	}
	sub.handed = true
	return eventstore.ErrDupEvent
}
