package ntfybridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/egress"
)

// Bounds of a notice, in bytes.
const (
	maxTitle   = 200
	maxNotice  = 2000
	maxLabel   = 64
	maxLink    = 1024
	maxActions = 3 // as many as ntfy shows
)

// ErrNotice means a notice that may not be sent: too long, with a control
// character, or with an address that is not https or looks like it holds a
// credential. It wraps carrier.ErrPermanent.
var ErrNotice = fmt.Errorf("%w: unusable notice", carrier.ErrPermanent)

// Notice is what a person reads on a phone. Title and Text are constants of the
// program: an ntfy server can read them. Links lead to pages that ask who comes.
type Notice struct {
	Title   string   // at most 200 bytes
	Text    string   // 1 to 2000 bytes
	Click   string   // https URL that opening the notice leads to; may be empty
	Actions []Action // at most 3
}

// Action is a button that opens a page. No other kind of action is sent: one
// that makes the phone send requests would act without anybody looking.
type Action struct {
	Label string // 1 to 64 bytes
	URL   string // https
}

// NotifierOptions are those of NewNotifier. Dialer is required.
type NotifierOptions struct {
	Addresses []string              // https://host/topic that notices may go to
	Tokens    map[string]Credential // by origin
	Rates     map[string]Rate       // by origin; of servers of one's own
	Dialer    *egress.Dialer

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves the metrics unregistered
	Now        func() time.Time      // nil is time.Now
}

// Notifier sends notices to the topics its owner configured.
type Notifier struct {
	sender    *publisher
	addresses []Address
}

// NewNotifier makes a notifier; it connects to nothing.
func NewNotifier(opts NotifierOptions) (*Notifier, error) {
	n := new(Notifier)
	var origins []string
	for _, text := range opts.Addresses {
		address, err := ParseAddress(text)
		if err != nil {
			return nil, fmt.Errorf("ntfybridge: an address for notices: %w", err)
		}
		n.addresses, origins = append(n.addresses, address), append(origins, address.Origin)
	}
	client, err := newClient(opts.Dialer, opts.Tokens, origins, opts.Now, newMetrics(opts.Registerer))
	if err != nil {
		return nil, err
	}
	allowances := make(map[string]Allowance)
	for origin, rate := range opts.Rates {
		allowances[origin] = Allowance{Rate: rate}
	}
	n.sender, err = newPublisher(client, allowances, 0, false)
	return n, err
}

// Close ends the connections that nothing uses.
func (n *Notifier) Close() { n.sender.client.Close() }

// Send publishes a notice. ErrNotice for one that may not be sent, or an
// address that is not configured; else errors as of carrier.Carrier.Send.
func (n *Notifier) Send(ctx context.Context, address string, notice Notice) error {
	to, err := ParseAddress(address)
	if err != nil {
		return err
	}
	if !slices.Contains(n.addresses, to) {
		return fmt.Errorf("%w: the address is not configured", ErrNotice)
	}
	body, err := notice.encode(to.Topic)
	if err != nil {
		return err
	}
	return n.sender.within(to.Origin, func() error {
		m, err := n.sender.client.post(ctx, to.Origin, to.Origin+"/", body)
		switch {
		case err != nil:
			return err
		case m.Topic != to.Topic || m.Event != "message" || !idPattern.MatchString(m.ID) || m.attached():
			return fmt.Errorf("%w: %w", carrier.ErrTransient, errNonsense)
		}
		return nil
	})
}

// view is an action as ntfy writes it.
type view struct {
	Action string `json:"action"`
	Label  string `json:"label"`
	URL    string `json:"url"`
}

// encode checks a notice and writes it as a publication.
func (n Notice) encode(topic string) ([]byte, error) {
	err := errors.Join(checkText(n.Title, 0, maxTitle), checkText(n.Text, 1, maxNotice))
	if n.Click != "" {
		err = errors.Join(err, checkLink(n.Click))
	}
	if len(n.Actions) > maxActions {
		err = errors.Join(err, fmt.Errorf("%w: more than %d actions", ErrNotice, maxActions))
	}
	var views []view
	for _, action := range n.Actions[:min(len(n.Actions), maxActions)] {
		err = errors.Join(err, checkText(action.Label, 1, maxLabel), checkLink(action.URL))
		views = append(views, view{"view", action.Label, action.URL})
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Topic   string `json:"topic"`
		Title   string `json:"title,omitempty"`
		Message string `json:"message"`
		Click   string `json:"click,omitempty"`
		Actions []view `json:"actions,omitempty"`
	}{topic, n.Title, n.Text, n.Click, views})
}

func checkText(text string, shortest, longest int) error {
	switch {
	case len(text) < shortest || len(text) > longest:
		return fmt.Errorf("%w: a text of %d bytes, not %d to %d", ErrNotice, len(text), shortest, longest)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }):
		return fmt.Errorf("%w: a text with control characters", ErrNotice)
	}
	return nil
}

// credentialNames are parts of the names of parameters that permit something.
var credentialNames = []string{"token", "auth", "secret", "password", "passwd", "pwd", "apikey", "api_key", "api-key", "credential", "session", "bearer", "signature", "jwt"}

// checkLink refuses an address that is not https, or holds a credential. Its
// text is not repeated.
func checkLink(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > maxLink || u.Opaque != "" || u.Hostname() == "":
		return fmt.Errorf("%w: not the URL of a page", ErrNotice)
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return fmt.Errorf("%w: a link starts with https://", ErrNotice)
	case u.User != nil:
		return fmt.Errorf("%w: a link has no user", ErrNotice)
	}
	for _, part := range []string{u.RawQuery, u.Fragment} {
		values, err := url.ParseQuery(part)
		if err != nil {
			return fmt.Errorf("%w: a link with a malformed query", ErrNotice)
		}
		for name := range values {
			if namesCredential(name) {
				return fmt.Errorf("%w: a link with a credential", ErrNotice)
			}
		}
	}
	return nil
}

func namesCredential(name string) bool {
	name = strings.ToLower(name)
	return name == "key" || name == "sig" || name == "code" || name == "pass" ||
		slices.ContainsFunc(credentialNames, func(part string) bool { return strings.Contains(name, part) })
}
