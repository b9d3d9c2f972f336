package httpserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/parleykit/parley/internal/egress"
)

func TestDial_reachesTheServerUnderItsPublicNameWithoutTheNetwork(t *testing.T) {
	s, err := New(Options{Listen: "127.0.0.1:0", Origin: "https://parley.example"})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Handle(Route{Pattern: "/hello", Owner: "test", Summary: "greets", Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hello "+r.Host) })})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()

	// Neither dialer may reach any address: only the way inside is left.
	dialer := egress.New(egress.Options{Self: &egress.Self{Host: s.Origin().Host(), Dial: s.Dial}})
	for _, client := range []*http.Client{dialer.HTTPClient(), dialer.FromCard().HTTPClient()} {
		answer, err := client.Get("https://parley.example/hello")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || string(body) != "hello parley.example" {
			t.Errorf("body = %q, %v", body, err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	if _, err := s.Dial(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Dial after the end = %v, want net.ErrClosed", err)
	}
}
