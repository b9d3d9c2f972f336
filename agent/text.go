package agent

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/protocol/canonical"
	"github.com/parleykit/parley/protocol/message"
)

// textLifetime is how long a text may travel before it is given up.
const textLifetime = 14 * 24 * time.Hour

// SendRequest is a text for someone.
type SendRequest struct {
	To          string `json:"to"` // npub, hex key or petname
	Text        string `json:"text"`
	WaitSeconds int    `json:"wait_seconds,omitempty"` // for the recipient's acknowledgement
	Key         string `json:"key,omitempty"`          // names this request; the same one sent again sends nothing more
}

// Delivery says how far a message has come.
type Delivery struct {
	ID          string `json:"id"` // message id
	To          string `json:"to"` // hex key
	State       string `json:"state"`
	Reason      string `json:"reason,omitempty"`
	Tried       int    `json:"tried"`                  // addresses tried
	NextSeconds int    `json:"next_seconds,omitempty"` // until the next attempt
}

// InboxRequest says which texts to show. Shown texts count as read.
type InboxRequest struct {
	From        string `json:"from,omitempty"` // npub, hex key or petname
	All         bool   `json:"all,omitempty"`  // those read before, too
	WaitSeconds int    `json:"wait_seconds,omitempty"`
}

// InboxResponse lists texts, the oldest first, at most 200.
type InboxResponse struct {
	Texts    []Text `json:"texts"`
	Requests int    `json:"requests"` // strangers waiting in the request box
}

// Text is one text that came.
type Text struct {
	ID         string         `json:"id"`
	From       string         `json:"from"` // hex key
	NPub       string         `json:"npub"`
	Name       string         `json:"name,omitempty"` // petname
	Thread     string         `json:"thread"`
	Text       string         `json:"text"`
	SentAt     canonical.Time `json:"sent_at"` // by the sender's clock
	ReceivedAt canonical.Time `json:"received_at"`
	New        bool           `json:"new"` // not shown before
}

// SendText queues a text durably, tries to send it and waits for the
// acknowledgement.
func (a *Agent) SendText(ctx context.Context, q SendRequest) (*Delivery, error) {
	wait, err := waitTime(q.WaitSeconds)
	if err != nil {
		return nil, err
	}
	r, err := newRepeatable("message.send", q.Key, SendRequest{To: q.To, Text: q.Text})
	if err != nil {
		return nil, err
	}
	id, err := a.earlier(ctx, r)
	if err != nil {
		return nil, err
	}
	if id == "" {
		if id, err = a.queueText(ctx, r, q); err != nil {
			return nil, err
		}
	}
	a.flush(ctx)
	var d *Delivery
	_, err = a.await(ctx, wait, func(ctx context.Context) (bool, error) {
		d, err = a.delivery(ctx, id)
		return err == nil && d.State != string(carrier.StateQueued) && d.State != string(carrier.StateSent), err
	})
	return d, err
}

// queueText makes a text and queues it once. It returns the message's id.
func (a *Agent) queueText(ctx context.Context, r *repeatable, q SendRequest) (id string, err error) {
	pubkey, err := a.who(ctx, q.To)
	if err != nil {
		return "", err
	}
	if n := utf8.RuneCountInString(q.Text); !utf8.ValidString(q.Text) || n < 1 || n > message.MaxText {
		return "", invalid("a text has 1 to %d characters", message.MaxText)
	}
	m, err := message.New(message.TypeText, a.key.PublicKey(), pubkey, message.Text{Text: q.Text}, a.now(), textLifetime)
	if err != nil {
		return "", invalid("the text cannot be sent: %w", err)
	}
	if _, err := a.online(); err != nil {
		return "", err
	}
	id, err = a.once(ctx, r, m.ID, func(ctx context.Context, tx *sql.Tx) error { return a.sendTx(ctx, tx, m) })
	if err != nil {
		return "", fmt.Errorf("queueing the text: %w", err)
	}
	return id, nil
}

// takeText stores a text for the owner to read.
func (a *Agent) takeText(ctx context.Context, tx *sql.Tx, m *message.Message) error {
	var body message.Text
	if err := message.DecodeBody(m, &body); err != nil {
		return a.refuse(ctx, tx, m, "", refusedShape, err)
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO agent_texts (peer, id, thread, text, sent_at, received_at)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (peer, id) DO NOTHING`,
		m.From, m.ID, m.Thread, body.Text, m.SentAt.Unix(), a.now().Unix())
	if err != nil {
		return fmt.Errorf("storing a text: %w", err)
	}
	return a.note(ctx, tx, Notice{Kind: NoticeText, Peer: m.From, ID: m.ID})
}

// Inbox shows texts and marks them read; with a wait it returns as soon as one
// is there.
func (a *Agent) Inbox(ctx context.Context, q InboxRequest) (*InboxResponse, error) {
	wait, err := waitTime(q.WaitSeconds)
	if err != nil {
		return nil, err
	}
	from := ""
	if q.From != "" {
		if from, err = a.who(ctx, q.From); err != nil {
			return nil, err
		}
	}
	response := &InboxResponse{Texts: []Text{}}
	_, err = a.await(ctx, wait, func(ctx context.Context) (bool, error) {
		response.Texts, err = a.readTexts(ctx, from, q.All)
		return len(response.Texts) > 0, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the inbox: %w", err)
	}
	link, err := a.current()
	if err != nil {
		return nil, err
	}
	requests, err := link.engine.Requests(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the request box: %w", err)
	}
	response.Requests = len(requests)
	return response, nil
}

// readTexts reads and marks in one transaction, so that two readers do not show
// the same text as new.
func (a *Agent) readTexts(ctx context.Context, from string, all bool) (list []Text, err error) {
	some, err := a.anyText(ctx, from, all)
	if err != nil || !some {
		return []Text{}, err
	}
	err = a.db.Tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if list, err = selectTexts(ctx, tx, from, all); err != nil {
			return err
		}
		for _, t := range list {
			_, err := tx.ExecContext(ctx, `UPDATE agent_texts SET read_at = $1 WHERE peer = $2 AND id = $3 AND read_at IS NULL`,
				a.now().Unix(), t.From, t.ID)
			if err != nil {
				return err
			}
		}
		return nil
	})
	for i := range list {
		list[i].NPub, list[i].Name = npub(list[i].From), a.petname(ctx, list[i].From)
	}
	return list, err
}

// anyText looks without the write lock, since waiting readers look often.
func (a *Agent) anyText(ctx context.Context, from string, all bool) (some bool, err error) {
	err = a.db.View(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM agent_texts
			WHERE ($1 OR read_at IS NULL) AND ($2 = '' OR peer = $3))`, all, from, from).Scan(&some)
	})
	return some, err
}

func selectTexts(ctx context.Context, tx *sql.Tx, from string, all bool) ([]Text, error) {
	rows, err := tx.QueryContext(ctx, `SELECT id, peer, thread, text, sent_at, received_at, read_at IS NULL FROM
		(SELECT * FROM agent_texts WHERE ($1 OR read_at IS NULL) AND ($2 = '' OR peer = $3) ORDER BY n DESC LIMIT 200)
		ORDER BY sent_at, id`, all, from, from)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Text{}
	for rows.Next() {
		var t Text
		var sent, received int64
		if err := rows.Scan(&t.ID, &t.From, &t.Thread, &t.Text, &sent, &received, &t.New); err != nil {
			return nil, err
		}
		t.SentAt, t.ReceivedAt = canonical.At(time.Unix(sent, 0)), canonical.At(time.Unix(received, 0))
		list = append(list, t)
	}
	return list, rows.Err()
}

// Requests lists the strangers who wrote.
func (a *Agent) Requests(ctx context.Context, _ Empty) (*RequestsResponse, error) {
	link, err := a.current()
	if err != nil {
		return nil, err
	}
	list, err := link.engine.Requests(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the request box: %w", err)
	}
	response := &RequestsResponse{Requests: []StrangerRequest{}}
	for _, r := range list {
		request := StrangerRequest{PubKey: r.PubKey, NPub: npub(r.PubKey), Messages: r.Messages, LastAt: canonical.At(r.Last)}
		if r.Latest != nil {
			request.Text = excerpt(r.Latest.Message)
		}
		response.Requests = append(response.Requests, request)
	}
	return response, nil
}

// excerpt is the beginning of a text, or the type of another message.
func excerpt(m *message.Message) string {
	var body message.Text
	if m.Type != message.TypeText || message.DecodeBody(m, &body) != nil {
		return "(" + m.Type + ")"
	}
	if runes := []rune(body.Text); len(runes) > 200 {
		return string(runes[:200]) + "…"
	}
	return body.Text
}

// AcceptContact makes a contact of a stranger in the request box. What waits of
// it is acknowledged and processed.
func (a *Agent) AcceptContact(ctx context.Context, q ContactRequest) (*Contact, error) {
	pubkey, err := a.newContact(ctx, q)
	if err != nil {
		return nil, err
	}
	link, err := a.current()
	if err != nil {
		return nil, err
	}
	old, err := a.predecessor(ctx, pubkey)
	if err != nil {
		return nil, err
	}
	err = link.engine.Accept(ctx, pubkey)
	if errors.Is(err, carrier.ErrNotFound) && old != nil {
		err = nil
	}
	if errors.Is(err, carrier.ErrNotFound) {
		return nil, notFound("%s has not written", npub(pubkey)).hint("to make it a contact all the same: parley contact add %s", npub(pubkey))
	}
	if err != nil {
		return nil, fmt.Errorf("accepting: %w", err)
	}
	if old != nil {
		if err := a.takePlace(ctx, old, pubkey, q.Name); err != nil {
			return nil, err
		}
	} else if q.Name != "" {
		if err := link.engine.AddContact(ctx, carrier.Contact{PubKey: pubkey, Name: q.Name}); err != nil {
			return nil, fmt.Errorf("naming the contact: %w", err)
		}
	}
	a.introduceSoon(ctx)
	a.flush(ctx)
	return a.contact(ctx, pubkey)
}
