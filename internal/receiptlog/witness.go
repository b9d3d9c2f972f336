package receiptlog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/internal/merklelog"
	"github.com/parleykit/parley/protocol/logproof"
)

// WitnessPath is where this server cosigns checkpoints of other logs: the
// submission prefix of C2SP tlog-witness, before /add-checkpoint.
const WitnessPath = "/receipts/witness"

// askEvery is how often witnesses are asked for the newest checkpoint.
const askEvery = time.Minute

// Witness is one that is asked to cosign the checkpoints of this log.
type Witness struct {
	Key logproof.Key
	URL string // submission prefix, without a slash at its end
}

// keysOf are the keys whose cosignatures are kept.
func keysOf(witnesses []Witness) (keys []logproof.Key) {
	for _, w := range witnesses {
		keys = append(keys, w.Key)
	}
	return keys
}

// askWitnesses asks all witnesses again and again until ctx ends. One that does
// not answer holds up the others for as long as the client waits.
func (l *Log) askWitnesses(ctx context.Context) {
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for {
		for _, w := range l.witnesses {
			result := resultCosigned
			if err := l.log.Ask(ctx, l.client, w.URL, w.Key); err != nil {
				if ctx.Err() != nil {
					return
				}
				result = resultFailed
				l.logger.WarnContext(ctx, "witness did not cosign", "witness", w.Key.Name(), "err", err)
			}
			l.metrics.witness.WithLabelValues(result).Inc()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Run makes checkpoints, and has them cosigned, until ctx ends; it returns nil
// then. ErrRunning.
func (l *Log) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		if len(l.witnesses) > 0 {
			l.askWitnesses(ctx)
		}
	}()
	err := l.log.Run(ctx)
	stop()
	<-asked
	return err
}

// ParseWitness reads the one-line key of a witness (a C2SP vkey) and its
// submission prefix, an http or https URL, which is not looked at.
func ParseWitness(key, url string) (Witness, error) {
	k, err := logproof.ParseKey(key)
	if err != nil {
		return Witness{}, fmt.Errorf("receiptlog: witness: %w", err)
	}
	if !k.IsWitness() {
		return Witness{}, errors.New("receiptlog: witness: the key is a log's")
	}
	return Witness{Key: k, URL: url}, nil
}

// WitnessRoute is where w answers, for httpserver.Server's Handle.
func WitnessRoute(w *merklelog.Witness) httpserver.Route {
	return httpserver.Route{
		Method: http.MethodPost, Pattern: WitnessPath + "/add-checkpoint", Owner: owner,
		Summary: "cosigns a checkpoint of a log that this server witnesses, C2SP tlog-witness", Handler: w,
	}
}
