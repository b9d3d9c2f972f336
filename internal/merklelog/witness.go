package merklelog

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/parleykit/parley/internal/database"
	"github.com/parleykit/parley/internal/httpserver"
	"github.com/parleykit/parley/protocol/logproof"
)

// WitnessOptions of NewWitness. DB, Name, Key and Logs are required.
type WitnessOptions struct {
	DB *database.DB // NewWitness adds the tables

	// Name of the witness, an address without its scheme, such as
	// "witness.example/w1".
	Name string
	// Key is an Ed25519 key that signs for nothing but this witness: a
	// cosignature does not say the name.
	Key crypto.Signer
	// Logs are the keys of the logs that are cosigned; the name of a key is the
	// origin of its log, of which there may be several keys.
	Logs []logproof.Key

	Now    func() time.Time // nil is time.Now
	Logger *slog.Logger     // nil discards
}

// Witness cosigns checkpoints of other logs, each only as a continuation of
// the one before it (C2SP tlog-witness). What it cosigned last is durable
// before the cosignature is given away, also among several processes.
type Witness struct {
	opts WitnessOptions
	key  logproof.Key
	logs map[string][]logproof.Key // by origin
}

// NewWitness makes a witness. ErrInvalid for options that cannot be.
func NewWitness(ctx context.Context, opts WitnessOptions) (*Witness, error) {
	if opts.DB == nil || opts.Key == nil {
		return nil, fmt.Errorf("%w: a witness needs a database and a key", ErrInvalid)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	opts.Logger = opts.Logger.With("component", "witness")
	public, _ := opts.Key.Public().(ed25519.PublicKey)
	key, err := logproof.WitnessKey(opts.Name, public)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	w := &Witness{opts: opts, key: key, logs: make(map[string][]logproof.Key)}
	for _, k := range opts.Logs {
		if k.IsWitness() || k.Name() == "" {
			return nil, fmt.Errorf("%w: %q is no key of a log", ErrInvalid, k.Name())
		}
		w.logs[k.Name()] = append(w.logs[k.Name()], k)
	}
	if err := Migrate(ctx, opts.DB); err != nil {
		return nil, fmt.Errorf("merklelog: %w", err)
	}
	return w, nil
}

// Key is the public key of the witness.
func (w *Witness) Key() logproof.Key { return w.key }

// refusal is an answer other than a cosignature.
type refusal struct {
	status int
	code   string
	detail string
	size   int64 // of the last cosigned checkpoint, when the status is 409
}

// Error implements error.
func (r *refusal) Error() string { return r.detail }

// ServeHTTP answers POST <prefix>/add-checkpoint: 200 with a signature line;
// 400 for a request that cannot be read or goes backwards, 403 where no known
// key signed, 404 for an unknown log, 409 with the last size where the old size
// is not the last one or another tree of this size was cosigned, 422 where the
// proof does not hold.
func (w *Witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		rw.Header().Set("Allow", http.MethodPost)
		httpserver.Problem(rw, r, http.StatusMethodNotAllowed, "method_not_allowed", "This path does not take the method.")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, logproof.MaxProof))
	if err != nil {
		httpserver.Problem(rw, r, http.StatusBadRequest, "malformed", "The request is too long or broke off.")
		return
	}
	line, err := w.Add(r.Context(), string(body))
	var no *refusal
	switch {
	case err == nil:
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(rw, line)
	case errors.As(err, &no) && no.status == http.StatusConflict:
		rw.Header().Set("Content-Type", "text/x.tlog.size")
		rw.WriteHeader(no.status)
		_, _ = io.WriteString(rw, strconv.FormatInt(no.size, 10)+"\n")
	case errors.As(err, &no):
		httpserver.Problem(rw, r, no.status, no.code, no.detail)
	default:
		w.opts.Logger.ErrorContext(r.Context(), "checkpoint not cosigned", "err", err)
		httpserver.Problem(rw, r, http.StatusServiceUnavailable, "unavailable", "The witness cannot answer now.")
	}
}

// Add checks the request of a log and returns the cosignature, one signature
// line. Errors other than those of the database are refusals.
func (w *Witness) Add(ctx context.Context, request string) (line string, err error) {
	update, err := logproof.ParseUpdate(request)
	if err != nil {
		return "", &refusal{status: http.StatusBadRequest, code: "malformed", detail: "The request cannot be read."}
	}
	signed, err := w.open(update.Checkpoint)
	if err != nil {
		return "", err
	}
	if update.OldSize > signed.Size {
		return "", &refusal{status: http.StatusBadRequest, code: "backwards", detail: "The old size is beyond the checkpoint."}
	}
	err = w.opts.DB.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := w.check(ctx, tx, update, signed); err != nil {
			return err
		}
		// Signed before the commit, so that a later tree has no earlier time;
		// given away only after it.
		line, err = logproof.Sign(signed.Text, w.key, w.opts.Key, w.opts.Now())
		return err
	})
	if err != nil {
		return "", err
	}
	return line, nil
}

// open checks the signature of the log.
func (w *Witness) open(note string) (*logproof.Signed, error) {
	claimed, err := logproof.Unverified(note)
	if err != nil {
		return nil, &refusal{status: http.StatusBadRequest, code: "malformed", detail: "The checkpoint cannot be read."}
	}
	keys := w.logs[claimed.Origin]
	if len(keys) == 0 {
		return nil, &refusal{status: http.StatusNotFound, code: "unknown_log", detail: "This log is not cosigned here."}
	}
	for _, key := range keys {
		if signed, err := logproof.Open(note, logproof.Policy{Log: key}); err == nil {
			return signed, nil
		}
	}
	return nil, &refusal{status: http.StatusForbidden, code: "not_signed", detail: "No known key of the log signed this."}
}

// check compares a checkpoint with the last one and records it as the last.
func (w *Witness) check(ctx context.Context, tx *sql.Tx, update *logproof.Update, next *logproof.Signed) error {
	last, err := w.last(ctx, tx, next.Origin)
	switch {
	case err != nil:
		return err
	case update.OldSize != last.Size, last.Size == next.Size && last.Root != next.Root:
		if last.Size == next.Size {
			w.opts.Logger.WarnContext(ctx, "a log shows two trees of one size", "origin", next.Origin, "size", next.Size)
		}
		return &refusal{status: http.StatusConflict, code: "conflict", detail: "Another checkpoint was cosigned last.", size: last.Size}
	}
	if err := logproof.CheckConsistency(last, next.Checkpoint, update.Path); err != nil {
		return &refusal{status: http.StatusUnprocessableEntity, code: "not_consistent", detail: "The proof does not hold."}
	}
	if last.Size == next.Size && last.Size > 0 {
		return nil // anybody can show it again, which writes nothing
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO merklelog_witnessed (origin, size, root) VALUES ($1, $2, $3)
		ON CONFLICT (origin) DO UPDATE SET size = excluded.size, root = excluded.root`, next.Origin, next.Size, next.Root[:])
	if err != nil {
		return fmt.Errorf("storing cosigned checkpoint: %w", err)
	}
	return nil
}

// last is the checkpoint that was cosigned last, an empty one before the first.
func (w *Witness) last(ctx context.Context, tx *sql.Tx, origin string) (logproof.Checkpoint, error) {
	c := logproof.Checkpoint{Origin: origin, Root: logproof.EmptyRoot}
	var root []byte
	err := tx.QueryRowContext(ctx, `SELECT size, root FROM merklelog_witnessed WHERE origin = $1`+w.opts.DB.ForUpdate(), origin).Scan(&c.Size, &root)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return c, nil
	case err != nil:
		return c, fmt.Errorf("reading cosigned checkpoint: %w", err)
	case len(root) != len(c.Root):
		return c, fmt.Errorf("%w: root of %d bytes", ErrBroken, len(root))
	}
	copy(c.Root[:], root)
	return c, nil
}
