package agent

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nbd-wtf/go-nostr/nip19"

	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/canonical"
)

// maxName bounds names and petnames, in code points.
const maxName = 64

// Status is how an agent stands.
type Status struct {
	PubKey   string   `json:"pubkey"`
	NPub     string   `json:"npub"`
	Name     string   `json:"name,omitempty"`
	Home     string   `json:"home"`
	Servers  []Server `json:"servers"` // the first one takes proposals
	Contacts int      `json:"contacts"`
	Requests int      `json:"requests"` // strangers waiting in the request box
	Unread   int      `json:"unread"`   // texts not shown yet
	Open     int      `json:"open"`     // agreements without an outcome

	Listening bool            `json:"listening"`          // the daemon is up: what is sent here comes at once
	AskedAt   *canonical.Time `json:"asked_at,omitempty"` // else when a command last asked the servers; what came since is not counted
}

// Status says who this agent is and what waits for it.
func (a *Agent) Status(ctx context.Context, _ Empty) (*Status, error) {
	s := &Status{PubKey: a.key.PublicKey(), NPub: a.key.NPub(), Home: a.home, Listening: a.isWorking()}
	var err error
	if !s.Listening {
		if s.AskedAt, err = a.asked(ctx); err != nil {
			return nil, err
		}
	}
	if s.Name, err = a.setting(ctx, settingName); err != nil {
		return nil, err
	}
	if s.Servers, err = a.servers(ctx); err != nil {
		return nil, err
	}
	link, err := a.current()
	if err != nil {
		return nil, err
	}
	contacts, err := link.engine.Contacts(ctx)
	if err != nil {
		return nil, fmt.Errorf("counting contacts: %w", err)
	}
	requests, err := link.engine.Requests(ctx)
	if err != nil {
		return nil, fmt.Errorf("counting requests: %w", err)
	}
	s.Contacts, s.Requests = len(contacts), len(requests)
	err = a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM agent_texts WHERE read_at IS NULL),
			(SELECT count(*) FROM agent_rooms WHERE outcome = 'pending' AND state <> 'refused')`).Scan(&s.Unread, &s.Open)
	})
	return s, err
}

// Keys of agent_settings.
const (
	settingName  = "name"
	settingCard  = "card"  // the profile of the published card
	settingAsked = "asked" // when the servers were last asked, as canonical.Time
)

// asked is when the last pass of a command got through, nil before the first.
func (a *Agent) asked(ctx context.Context) (*canonical.Time, error) {
	text, err := a.setting(ctx, settingAsked)
	if err != nil || text == "" {
		return nil, err
	}
	at := new(canonical.Time)
	if err := at.UnmarshalText([]byte(text)); err != nil {
		return nil, fmt.Errorf("reading when the servers were asked: %w", err)
	}
	return at, nil
}

func (a *Agent) setting(ctx context.Context, key string) (value string, err error) {
	err = a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT value FROM agent_settings WHERE key = $1`, key).Scan(&value)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return value, err
}

func (a *Agent) setSetting(ctx context.Context, key, value string) error {
	return exec(ctx, a.db, `INSERT INTO agent_settings (key, value) VALUES ($1, $2)
		ON CONFLICT (key) DO UPDATE SET value = excluded.value`, key, value)
}

func (a *Agent) setName(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	if err := checkName(name); err != nil {
		return err
	}
	return a.setSetting(ctx, settingName, name)
}

// checkName keeps names to one visible line that cannot be taken for a key.
func checkName(name string) error {
	switch {
	case !utf8.ValidString(name) || utf8.RuneCountInString(name) > maxName:
		return invalid("a name has at most %d characters", maxName)
	case strings.TrimSpace(name) != name || strings.IndexFunc(name, unprintable) >= 0:
		return invalid("a name is one line of visible characters")
	case strings.HasPrefix(name, "npub1") || canonical.IsHex(name, 32):
		return invalid("a name must not look like a key")
	}
	return nil
}

func unprintable(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }

// npub is the NIP-19 form of a hex key, the key itself where it has none.
func npub(pubkey string) string {
	text, err := nip19.EncodePublicKey(pubkey)
	if pubkey == "" || err != nil {
		return pubkey
	}
	return text
}

// who resolves what people type for a key: an npub, 64 hex characters, or a
// petname.
func (a *Agent) who(ctx context.Context, text string) (string, error) {
	if text == "" {
		return "", invalid("no one is named").hint("give an npub, a hex key or a petname")
	}
	if pubkey, err := keys.ParsePublic(text); err == nil {
		return pubkey, nil
	}
	if strings.HasPrefix(text, "npub1") {
		return "", invalid("%q is not an npub: a character is wrong or missing", text)
	}
	link, err := a.current()
	if err != nil {
		return "", err
	}
	contacts, err := link.engine.Contacts(ctx)
	if err != nil {
		return "", fmt.Errorf("looking up a petname: %w", err)
	}
	for _, c := range contacts {
		if c.Name == text {
			return c.PubKey, nil
		}
	}
	return "", notFound("no contact is called %q", text).hint("see `parley contact list`, or give the npub")
}
