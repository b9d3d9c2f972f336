package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
)

// Local runs operations in this process, for commands that do not stay: it
// receives and sends once around each, and works in the background only while
// an operation waits.
type Local struct {
	// Warn takes one sentence when the relays cannot be reached; nil discards.
	Warn  func(text string)
	agent *Agent
}

// OpenLocal opens a home for this process. Close gives it back.
func OpenLocal(ctx context.Context, opts Options) (*Local, error) {
	a, err := New(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &Local{agent: a}, nil
}

// Call runs one operation. response is a pointer or nil.
func (l *Local) Call(ctx context.Context, operation string, request, response any) error {
	op, found := find(operation)
	if !found || op.call == nil {
		return notFound("no operation %s", operation)
	}
	var body bytes.Buffer
	if err := encodeJSON(&body, request); err != nil {
		return fmt.Errorf("encoding the request: %w", err)
	}
	if op.Online {
		l.sync(ctx)
	}
	result, err := op.call(ctx, l.agent, body.Bytes())
	if err != nil {
		return asError(err)
	}
	if response == nil {
		return nil
	}
	body.Reset()
	if err := encodeJSON(&body, result); err != nil {
		return fmt.Errorf("encoding the response: %w", err)
	}
	return json.Unmarshal(body.Bytes(), response)
}

// Stream runs an operation that answers line by line, and hands each line,
// without its end, to emit, which must not keep it.
func (l *Local) Stream(ctx context.Context, operation string, request any, emit func(line []byte) error) error {
	op, found := find(operation)
	if !found || op.stream == nil {
		return notFound("no operation %s", operation)
	}
	var body bytes.Buffer
	if err := encodeJSON(&body, request); err != nil {
		return fmt.Errorf("encoding the request: %w", err)
	}
	if err := op.stream(ctx, l.agent, body.Bytes(), emit); err != nil {
		return asError(err)
	}
	return nil
}

func (l *Local) sync(ctx context.Context) {
	if err := l.agent.Sync(ctx); err != nil && l.Warn != nil {
		l.Warn("working offline: " + outage(err) + "; what you send waits for the next command that gets through")
	}
}

// Close sends what is left, such as acknowledgements, and gives the home back.
func (l *Local) Close() error {
	if l.agent.isWorking() {
		l.agent.stopWorking()
		l.sync(context.Background())
	}
	return l.agent.Close()
}

func find(name string) (Operation, bool) {
	for _, op := range operations {
		if op.Name == name {
			return op, true
		}
	}
	return Operation{}, false
}
