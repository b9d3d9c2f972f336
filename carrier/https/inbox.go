package https

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/httpauth"
)

const (
	maxDeletion     = 16 << 10 // bytes of the body
	maxDeleted      = 200      // ids in it
	keepAlivePeriod = 15 * time.Second
	streamLife      = time.Hour // after which a stream ends, to be authenticated anew
	writeTime       = 15 * time.Second
	streamWindow    = maxPage // envelopes sent on a stream and not deleted yet
)

// delivered is one envelope in an answer; wrap is its exact bytes as a text.
type delivered struct {
	ID   string `json:"id"`
	Wrap string `json:"wrap"`
}

// delivery is the answer to a GET of an inbox.
type delivery struct {
	Envelopes []delivered `json:"envelopes"`
}

// deletion is the body of a DELETE.
type deletion struct {
	IDs []string `json:"ids"`
}

// deleted is its answer.
type deleted struct {
	Deleted int64 `json:"deleted"`
}

// caller is the key that signed a request (NIP-98); "" once it was refused.
func (m *Mailbox) caller(w http.ResponseWriter, r *http.Request, body []byte) string {
	if !m.allow(r) {
		m.metrics.reads.WithLabelValues(refusedRate.code).Inc()
		m.refuse(w, r, refusedRate)
		return ""
	}
	url := strings.TrimSuffix(m.opts.Origin, "/") + r.URL.RequestURI()
	pubkey, err := m.verifier.Verify(r.Header.Get("Authorization"), httpauth.Request{URL: []string{url}, Method: r.Method, Body: body, Allow: m.opts.Admit})
	switch {
	case errors.Is(err, httpauth.ErrBusy):
		m.metrics.reads.WithLabelValues(refusedReaders.code).Inc()
		m.refuse(w, r, refusedReaders)
	case errors.Is(err, httpauth.ErrForbidden):
		m.metrics.reads.WithLabelValues(refusedKey.code).Inc()
		m.refuse(w, r, refusedKey)
	case err != nil:
		m.metrics.reads.WithLabelValues(refusedToken.code).Inc()
		m.refuse(w, r, refusedToken)
	default:
		return pubkey
	}
	return ""
}

// inbox answers with the oldest envelopes of the caller, once there is one or the
// time it gives is over; or streams them.
func (m *Mailbox) inbox(w http.ResponseWriter, r *http.Request) {
	pubkey := m.caller(w, r, nil)
	if pubkey == "" {
		return
	}
	woken, leave, err := m.await(pubkey, m.opts.ClientIP(r))
	if err != nil {
		m.metrics.reads.WithLabelValues(refusedReaders.code).Inc()
		m.refuse(w, r, refusedReaders)
		return
	}
	defer leave()
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		m.metrics.reads.WithLabelValues(readStream).Inc()
		m.stream(w, r, pubkey, woken)
		return
	}
	m.metrics.reads.WithLabelValues(readPage).Inc()
	page, err := m.nextPage(r.Context(), pubkey, waitTime(r), woken)
	if err != nil {
		if r.Context().Err() == nil {
			m.logger.ErrorContext(r.Context(), "reading a box", "err", err)
		}
		m.refuse(w, r, refusedStorage)
		return
	}
	body := delivery{Envelopes: []delivered{}}
	for _, one := range page {
		body.Envelopes = append(body.Envelopes, delivered{one.id, string(one.wrap)})
	}
	m.answer(w, r, body)
}

// waitTime is how long the caller wants to wait for the first envelope.
func waitTime(r *http.Request) time.Duration {
	seconds, err := strconv.Atoi(r.URL.Query().Get("wait"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxWait)
}

// nextPage reads a page, again after each notice until there is one.
func (m *Mailbox) nextPage(ctx context.Context, pubkey string, wait time.Duration, woken <-chan struct{}) ([]waiting, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		page, err := m.page(ctx, pubkey, maxPage)
		if err != nil || len(page) > 0 || wait == 0 {
			return page, err
		}
		select {
		case <-woken:
		case <-timer.C:
			return nil, nil
		case <-m.ended:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// stream sends envelopes as server-sent events, at most streamWindow that the caller
// has not deleted.
func (m *Mailbox) stream(w http.ResponseWriter, r *http.Request, pubkey string, woken <-chan struct{}) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // else the server takes the caller for gone
	_ = control.SetWriteDeadline(time.Now().Add(writeTime))
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy must not collect them
	w.WriteHeader(http.StatusOK)
	_ = control.Flush()
	life := time.NewTimer(streamLife)
	alive := time.NewTicker(keepAlivePeriod)
	defer life.Stop()
	defer alive.Stop()
	sent := map[int64]bool{}
	for {
		_ = control.SetWriteDeadline(time.Now().Add(keepAlivePeriod + writeTime)) // who does not read is cut off
		var err error
		if sent, err = m.streamPage(w, r, pubkey, sent); err != nil || control.Flush() != nil {
			return
		}
		select {
		case <-woken:
		case <-alive.C:
			if _, err := io.WriteString(w, ": still here\n\n"); err != nil {
				return
			}
		case <-life.C:
			return
		case <-m.ended:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// streamPage sends what was not sent, and returns what was sent and is still there.
func (m *Mailbox) streamPage(w io.Writer, r *http.Request, pubkey string, sent map[int64]bool) (map[int64]bool, error) {
	page, err := m.page(r.Context(), pubkey, streamWindow)
	if err != nil {
		return nil, err
	}
	still := make(map[int64]bool, len(page))
	for _, one := range page {
		still[one.seq] = true
		if sent[one.seq] {
			continue
		}
		data, err := json.Marshal(delivered{one.id, string(one.wrap)})
		if err != nil {
			return nil, err
		}
		if _, err := fmt.Fprintf(w, "event: envelope\nid: %s\ndata: %s\n\n", one.id, data); err != nil {
			return nil, err
		}
	}
	return still, nil
}

// delete forgets what the caller has stored.
func (m *Mailbox) delete(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxDeletion))
	if err != nil {
		m.refuse(w, r, refusedDeletion)
		return
	}
	pubkey := m.caller(w, r, body)
	if pubkey == "" {
		return
	}
	var named deletion
	if canonical.Decode(body, &named) != nil || len(named.IDs) == 0 || len(named.IDs) > maxDeleted {
		m.refuse(w, r, refusedDeletion)
		return
	}
	removed, err := m.remove(r.Context(), pubkey, named.IDs)
	if err != nil {
		m.logger.ErrorContext(r.Context(), "deleting envelopes", "err", err)
		m.refuse(w, r, refusedStorage)
		return
	}
	m.metrics.fetched.Add(float64(removed))
	m.wake(pubkey) // a stream has room for more
	m.answer(w, r, deleted{removed})
}

func (m *Mailbox) answer(w http.ResponseWriter, r *http.Request, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		m.refuse(w, r, refusedStorage)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(data)
}
