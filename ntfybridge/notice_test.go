package ntfybridge_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/ntfybridge"
	"github.com/parleykit/parley/ntfybridge/ntfytest"
)

func newNotifier(t *testing.T, addresses ...string) *ntfybridge.Notifier {
	t.Helper()
	n, err := ntfybridge.NewNotifier(ntfybridge.NotifierOptions{Addresses: addresses, Dialer: loopback()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

func TestNoticeHasViewActionsOnly(t *testing.T) {
	server := ntfytest.Start(t, ntfytest.Unlimited)
	topic := server.URL + "/phone"
	err := newNotifier(t, topic).Send(t.Context(), topic, ntfybridge.Notice{
		Title: "Parley", Text: "A decision waits.", Click: "https://parley.example/approvals",
		Actions: []ntfybridge.Action{{Label: "Open", URL: "https://parley.example/approvals?id=7"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Get(topic + "/json?poll=1")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var got struct {
		Title, Message, Click string
		Actions               []map[string]string
	}
	data, _ := io.ReadAll(response.Body)
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Title != "Parley" || got.Message != "A decision waits." || len(got.Actions) != 1 || got.Actions[0]["action"] != "view" || len(got.Actions[0]) != 3 {
		t.Errorf("the notice is %s", data)
	}
}

func TestNoticesThatAreNotSent(t *testing.T) {
	server := ntfytest.Start(t, ntfytest.Unlimited)
	topic := server.URL + "/phone"
	link := func(url string) ntfybridge.Notice { return ntfybridge.Notice{Text: "x", Click: url} }
	action := func(label, url string) ntfybridge.Notice {
		return ntfybridge.Notice{Text: "x", Actions: []ntfybridge.Action{{Label: label, URL: url}}}
	}
	for name, test := range map[string]struct {
		address string
		notice  ntfybridge.Notice
	}{
		"an address that is not configured": {server.URL + "/other", ntfybridge.Notice{Text: "x"}},
		"no text":                           {topic, ntfybridge.Notice{Title: "x"}},
		"a long text":                       {topic, ntfybridge.Notice{Text: strings.Repeat("x", 2001)}},
		"a long title":                      {topic, ntfybridge.Notice{Text: "x", Title: strings.Repeat("x", 201)}},
		"a control character":               {topic, ntfybridge.Notice{Text: "x", Title: "a\r\nActions: http, x"}},
		"no UTF-8":                          {topic, ntfybridge.Notice{Text: "\xff"}},
		"a user in a link":                  {topic, link("https://me:secret@h.example/")},
		"a token in a link":                 {topic, link("https://h.example/?access_token=secret")},
		"an authorization in a link":        {topic, link("https://h.example/?a=1&AUTH=secret")},
		"a token in a fragment":             {topic, link("https://h.example/#id_token=secret")},
		"a malformed query":                 {topic, link("https://h.example/?a=%zz;token=secret")},
		"plain http":                        {topic, link("http://h.example/")},
		"a script":                          {topic, link("javascript:alert(1)")},
		"a telephone number":                {topic, link("tel:123")},
		"a long link":                       {topic, link("https://h.example/" + strings.Repeat("x", 1024))},
		"an action without a label":         {topic, action("", "https://h.example/")},
		"an action with a credential":       {topic, action("Open", "https://h.example/?key=secret")},
		"four actions":                      {topic, ntfybridge.Notice{Text: "x", Actions: make([]ntfybridge.Action, 4)}},
	} {
		err := newNotifier(t, topic).Send(t.Context(), test.address, test.notice)
		if !errors.Is(err, ntfybridge.ErrNotice) || !errors.Is(err, carrier.ErrPermanent) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if server.Published() != 0 {
		t.Errorf("%d notices were sent", server.Published())
	}
}
