package agent

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/parleykit/parley/protocol/canonical"
)

// Operation is one row of the API: a name, what it does, and a method of Agent
// that takes one struct and returns one, or a stream of them.
type Operation struct {
	Name    string // such as "message.send"
	Summary string // one line for docs/agent.md
	Online  bool   // speaks to servers; a one-shot process syncs before it
	call    func(ctx context.Context, a *Agent, body []byte) (any, error)
	// stream is set in place of call. What it emits is one line of JSON each,
	// without a line end, which emit must not keep.
	stream func(ctx context.Context, a *Agent, body []byte, emit func(line []byte) error) error

	request, answer reflect.Type
}

func offline[Q, R any](name, summary string, method func(*Agent, context.Context, Q) (R, error)) Operation {
	call := func(ctx context.Context, a *Agent, body []byte) (any, error) {
		var request Q
		if err := canonical.Decode(body, &request); err != nil {
			return nil, invalid("reading the request: %w", err)
		}
		return method(a, ctx, request)
	}
	return Operation{
		Name: name, Summary: summary, call: call,
		request: reflect.TypeFor[Q](), answer: reflect.TypeFor[R](),
	}
}

func online[Q, R any](name, summary string, method func(*Agent, context.Context, Q) (R, error)) Operation {
	op := offline(name, summary, method)
	op.Online = true
	return op
}

// streamed is an offline operation whose answer is too large for one document.
func streamed[Q, R any](name, summary string, method func(*Agent, context.Context, Q, func([]byte) error) error) Operation {
	stream := func(ctx context.Context, a *Agent, body []byte, emit func(line []byte) error) error {
		var request Q
		if err := canonical.Decode(body, &request); err != nil {
			return invalid("reading the request: %w", err)
		}
		return method(a, ctx, request, emit)
	}
	return Operation{
		Name: name, Summary: summary, stream: stream,
		request: reflect.TypeFor[Q](), answer: reflect.TypeFor[R](),
	}
}

var operations = []Operation{
	offline("agent.status", "who this agent is and how it stands", (*Agent).Status),
	online("agent.doctor", "send an envelope to this agent over each of its carriers", (*Agent).Doctor),
	offline("agent.refusals", "what was refused and why, newest first", (*Agent).Refusals),
	offline("server.pin", "fetch a server's signed document and pin its key", (*Agent).PinServer),
	offline("server.trust", "replace a pinned server key after a person compared it", (*Agent).TrustServer),
	online("key.succeed", "make a new key take the place of the agent's; the daemon must be stopped", (*Agent).SucceedKey),
	offline("key.revoke", "ask the relays to delete the own card and relay list", (*Agent).RevokeKey),
	offline("card.show", "the card of an agent, or its own", (*Agent).ShowCard),
	offline("card.publish", "sign the own card and publish it", (*Agent).PublishCard),
	offline("card.find", "look for cards by key or by capability", (*Agent).FindCards),
	offline("carrier.list", "the ways by which this agent is reached", (*Agent).Carriers),
	offline("carrier.add", "listen at a broker or an ntfy server, too", (*Agent).AddCarrier),
	offline("carrier.remove", "end the use of a broker or ntfy server that was added", (*Agent).RemoveCarrier),
	offline("contact.add", "make a key a contact", (*Agent).AddContact),
	offline("contact.list", "the contacts", (*Agent).Contacts),
	online("contact.requests", "strangers who wrote", (*Agent).Requests),
	online("contact.accept", "make a stranger a contact and process what it wrote", (*Agent).AcceptContact),
	offline("contact.remove", "forget a contact", (*Agent).RemoveContact),
	streamed[PersonRequest, PersonRow]("person.export", "everything stored about a key, one row on each line", (*Agent).ExportPerson),
	offline("person.erase", "delete what is stored about a key; agreements only when asked", (*Agent).ErasePerson),
	online("message.send", "send a text", (*Agent).SendText),
	online("message.inbox", "texts that came", (*Agent).Inbox),
	online("outbox.list", "messages on their way, and those that did not arrive", (*Agent).Outbox),
	online("outbox.requeue", "give dead messages another chance", (*Agent).Requeue),
	offline("outbox.purge", "delete messages that are dead or expired", (*Agent).Purge),
	online("agreement.propose", "lock a revision, sign it and send it to the venue", (*Agent).Propose),
	online("agreement.list", "the agreements this key is in", (*Agent).Agreements),
	online("agreement.review", "the exact revision, its digest and what happened so far", (*Agent).Review),
	online("agreement.comment", "say something that binds nobody", (*Agent).Comment),
	online("agreement.decide", "agree, disagree, abstain or withdraw, by digest", (*Agent).Decide),
	offline("bundle.verify", "check a bundle offline, from its bytes alone", (*Agent).VerifyBundle),
}

// Operations lists the API, in the order of docs/agent.md.
func Operations() []Operation { return slices.Clone(operations) }

// Empty is the request of operations that need none.
type Empty struct{}

// maxWait bounds wait_seconds of a request.
const maxWait = 3600

// waitTime reads wait_seconds.
func waitTime(seconds int) (time.Duration, error) {
	if seconds < 0 || seconds > maxWait {
		return 0, invalid("wait_seconds must lie between 0 and %d", maxWait)
	}
	return time.Duration(seconds) * time.Second, nil
}
