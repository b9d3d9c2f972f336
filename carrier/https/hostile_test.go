package https_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/carrier/https"
	"github.com/parleykit/parley/internal/database/databasetest"
	"github.com/parleykit/parley/internal/egress"
)

// Whatever an address answers that is not the right answer, it gets no envelope, and
// of two that ask at once one does.
func TestNoEnvelopeWithoutTheRightAnswer(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"redirect":  func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"HTML":      func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"megabytes": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Repeat(" ", 4<<20))) },
		"accepted":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) },
		"empty":     func(http.ResponseWriter, *http.Request) {},
	} {
		t.Run(name, func(t *testing.T) {
			var gets, posts atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					posts.Add(1)
				}
				gets.Add(1)
				answer(w, r)
			}))
			defer server.Close()
			key := newKey(t)
			c, err := https.New(t.Context(), https.Options{Signer: key, DB: databasetest.Open(t), Dialer: egress.New(egress.Options{AllowLoopback: true})})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			wrap := wrapFor(t, key, sealed)
			var group sync.WaitGroup
			for range 2 {
				group.Go(func() {
					if c.Send(t.Context(), carrier.Address{Scheme: https.Scheme, Address: server.URL + https.EnvelopesPath}, wrap) == nil {
						t.Error("it was sent")
					}
				})
			}
			group.Wait()
			if gets.Load() != 1 || posts.Load() != 0 {
				t.Errorf("%d requests, %d of them no GET", gets.Load(), posts.Load())
			}
		})
	}
}
