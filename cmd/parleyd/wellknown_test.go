package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleykit/parley/internal/config"
	"github.com/parleykit/parley/protocol/wellknown"
)

func TestNames_areAnsweredOneByOneWithTheOwnRelay(t *testing.T) {
	key, root := config.PublicKey(strings.Repeat("a1", 32)), config.PublicKey(strings.Repeat("b2", 32))
	s := startServer(t, func(cfg *config.Config) {
		cfg.Names = map[string]config.PublicKey{"alice": key, "_": root}
	})
	origin := s.http.Origin()
	for query, want := range map[string]wellknown.Names{
		"?name=alice": {Names: map[string]string{"alice": string(key)}, Relays: map[string][]string{string(key): {origin.WebSocket() + "/"}}},
		"?name=ALICE": {Names: map[string]string{"alice": string(key)}, Relays: map[string][]string{string(key): {origin.WebSocket() + "/"}}},
		"?name=_":     {Names: map[string]string{"_": string(root)}, Relays: map[string][]string{string(root): {origin.WebSocket() + "/"}}},
		"?name=bob":   {Names: map[string]string{}},
		"":            {Names: map[string]string{}},
	} {
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		answer, err := client.Get(origin.String() + wellknown.NamesPath + query)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK || answer.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%q: status %d, headers %v, %v", query, answer.StatusCode, answer.Header, err)
		}
		var got wellknown.Names
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%q: %v", query, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q:\n%s", query, diff)
		}
		if !strings.Contains(string(body), `"names":{`) {
			t.Errorf("%q: %s has no names", query, body)
		}
	}
}

func TestNames_nameNoRelayWhereNoneRuns(t *testing.T) {
	s := startServer(t, func(cfg *config.Config) {
		cfg.Names = map[string]config.PublicKey{"alice": config.PublicKey(strings.Repeat("a1", 32))}
		cfg.Relay.Enabled, cfg.Venue.Enabled = false, false
	})
	answer, err := http.Get(s.http.Origin().String() + wellknown.NamesPath + "?name=alice")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, _ := io.ReadAll(answer.Body); strings.Contains(string(body), "relays") {
		t.Errorf("the answer is %s", body)
	}
}
