package receiptlog

import (
	"context"
	"crypto"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/merklelog"
	"github.com/parleykit/parley/protocol/logproof"
)

// Errors of this package; test with errors.Is.
var (
	// ErrUnknown means a receipt that was never appended.
	ErrUnknown = merklelog.ErrUnknown
	// ErrWaiting means a receipt that the next checkpoint will cover.
	ErrWaiting = merklelog.ErrWaiting
	// ErrReference means a text that is not the reference of a receipt.
	ErrReference = errors.New("receiptlog: a receipt is named by sha256: and 64 lowercase hex digits")
	// ErrRunning means a second Run.
	ErrRunning = merklelog.ErrRunning
)

// prefix is where the log is served, and the path of its origin.
const prefix = "/receipts/log"

// Options of New. DB, Key and Origin are required.
type Options struct {
	DB *database.DB // the process's database; New adds the tables

	// Key is the Ed25519 key of the purpose "checkpoint".
	Key crypto.Signer
	// Origin is the http or https origin at which Routes are served, without a
	// path: "https://parley.example". It names the log for good.
	Origin string
	// Witnesses are asked to cosign checkpoints, through Client; at most 32.
	Witnesses []Witness
	Client    *http.Client // bounds times and addresses; needed for Witnesses

	Every      time.Duration         // between looks for entries of other processes; 0 is a second
	Now        func() time.Time      // nil is time.Now
	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves the metrics unregistered
}

// Log is the log of receipts of one server.
type Log struct {
	log       *merklelog.Log
	witnesses []Witness
	client    *http.Client
	logger    *slog.Logger
	metrics   *metrics
}

// New opens the log, and makes it when it is not there.
func New(ctx context.Context, opts Options) (*Log, error) {
	name, err := nameAt(opts.Origin)
	if err != nil {
		return nil, err
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if len(opts.Witnesses) > 0 && opts.Client == nil {
		return nil, errors.New("receiptlog: Options.Witnesses need Options.Client")
	}
	l := &Log{
		witnesses: opts.Witnesses, client: opts.Client, logger: opts.Logger.With("component", "receiptlog"),
		metrics: newMetrics(opts.Registerer),
	}
	l.log, err = merklelog.New(ctx, merklelog.Options{
		DB: opts.DB, Origin: name, Key: opts.Key, Witnesses: keysOf(opts.Witnesses),
		Every: opts.Every, Made: l.metrics.made, Now: opts.Now, Logger: opts.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("receiptlog: %w", err)
	}
	return l, l.countEntries(ctx)
}

// nameAt is the name of the log that is served at an origin.
func nameAt(origin string) (string, error) {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || origin != u.Scheme+"://"+u.Host {
		return "", errors.New("receiptlog: Options.Origin must be an http or https origin without a path")
	}
	return u.Host + prefix, nil
}

// countEntries sets the metric of a log that was there before.
func (l *Log) countEntries(ctx context.Context) error {
	signed, err := l.log.Checkpoint(ctx)
	if err != nil {
		return fmt.Errorf("receiptlog: %w", err)
	}
	c, err := logproof.Unverified(signed)
	if err != nil {
		return fmt.Errorf("receiptlog: %w", err)
	}
	l.metrics.entries.Set(float64(c.Size))
	return nil
}

// Leaf is the entry of a receipt: the 32 bytes of its reference, which is
// "sha256:" and 64 lowercase hex digits. ErrReference.
func Leaf(ref string) ([]byte, error) {
	digits, found := strings.CutPrefix(ref, "sha256:")
	leaf, err := hex.DecodeString(digits)
	if err != nil || !found || len(leaf) != merklelog.LeafSize || hex.EncodeToString(leaf) != digits {
		return nil, ErrReference
	}
	return leaf, nil
}

// Append adds a receipt in the caller's transaction, a Tx or a Write of the
// database of Options; it is durable when that commits. A receipt that is there
// already stays where it is. Call Wake after the commit. ErrReference.
func (l *Log) Append(ctx context.Context, tx *sql.Tx, ref string) error {
	leaf, err := Leaf(ref)
	if err != nil {
		return err
	}
	return l.log.Append(ctx, tx, leaf)
}

// Proof is the text that logproof.Verify takes to prove that the log holds a
// receipt. ErrReference, ErrUnknown, ErrWaiting.
func (l *Log) Proof(ctx context.Context, ref string) (string, error) {
	leaf, err := Leaf(ref)
	if err != nil {
		return "", err
	}
	proof, err := l.log.Proof(ctx, leaf)
	if err != nil {
		return "", err
	}
	return proof.String(), nil
}

// Checkpoint is the newest checkpoint with its signatures.
func (l *Log) Checkpoint(ctx context.Context) (string, error) { return l.log.Checkpoint(ctx) }

// Key is the public key of the log. Its text is what readers are given.
func (l *Log) Key() logproof.Key { return l.log.Key() }

// CatchUp makes checkpoints of all that was appended before, as Run does.
func (l *Log) CatchUp(ctx context.Context) error { return l.log.CatchUp(ctx) }

// Wake makes Run look for entries now; call it after a commit with an Append.
func (l *Log) Wake() { l.log.Wake() }
