package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/nbd-wtf/go-nostr"
)

// Plugin is a program that decides about events, with the line protocol of
// strfry's write policy plugins: one JSON object a line on its standard input,
// {"type":"new","event":{…},"receivedAt":unix,"sourceType":"IP4" or "IP6",
// "sourceInfo":address}, and one a line on its standard output for each,
// {"id":event id,"action":"accept", "reject" or "shadowReject","msg":text}. It
// may answer in any order.
//
// It is asked last: it sees only events that the policy takes, whose signature
// is right and that are new, and neither requests to delete nor to vanish.
// While it does not run, does not answer in time or answers nonsense, events
// are refused with "error:"; nothing else waits for it.
type Plugin struct {
	// Command is the program and its arguments; there is no shell. Its
	// environment is PATH and LANG alone. Lines of its standard error are logged.
	Command []string
	// Timeout is for one event; a program that exceeds it is ended and started
	// again. 0 means two seconds.
	Timeout time.Duration
	// Queue is how many events wait for it at most; 0 means 256.
	Queue int
}

const (
	maxPluginLine  = 64 << 10 // bytes of one answer
	maxPluginText  = 300      // bytes of its msg that are passed on
	pluginPause    = 100 * time.Millisecond
	pluginMaxPause = 30 * time.Second
)

func (p Plugin) withDefaults() (*Plugin, error) {
	p.Timeout, p.Queue = cmp.Or(p.Timeout, 2*time.Second), cmp.Or(p.Queue, 256)
	switch {
	case len(p.Command) == 0 || p.Command[0] == "":
		return nil, errors.New("the plugin has no command")
	case p.Timeout < 0 || p.Queue < 0:
		return nil, errors.New("a limit of the plugin is negative")
	}
	return &p, nil
}

// What came of asking the plugin, the closed label set of
// parley_relay_plugin_verdicts_total.
const (
	verdictAccept  = "accept"
	verdictReject  = "reject"
	verdictShadow  = "shadow_reject"
	verdictTimeout = "timeout"
	verdictFailed  = "failed" // it does not run, died, or its answer makes no sense
	verdictFull    = "full"   // too many events wait
)

var pluginVerdicts = []string{verdictAccept, verdictReject, verdictShadow, verdictTimeout, verdictFailed, verdictFull}

// verdict is what came of asking; text is the refusal.
type verdict struct{ kind, text string }

var (
	pluginFailed  = verdict{verdictFailed, "error: the policy plugin of this relay does not work"}
	pluginTimeout = verdict{verdictTimeout, "error: the policy plugin of this relay did not answer in time"}
	pluginFull    = verdict{verdictFull, "error: the policy plugin of this relay is busy, try again"}
)

// question is one event that the plugin is asked about.
type question struct {
	id    string
	line  []byte
	asked time.Time
	done  chan verdict // holds one
}

func (q *question) settle(v verdict) {
	select {
	case q.done <- v:
	default:
	}
}

// plugin asks the program; run keeps it running. Its methods may be called
// concurrently.
type plugin struct {
	relay     *Relay
	opts      Plugin
	questions chan *question
}

// newPlugin is nil when there is no plugin.
func newPlugin(r *Relay) *plugin {
	if r.opts.Plugin == nil {
		return nil
	}
	return &plugin{relay: r, opts: *r.opts.Plugin, questions: make(chan *question, r.opts.Plugin.Queue)}
}

// rejectPlugin asks the plugin.
func (r *Relay) rejectPlugin(ctx context.Context, ev *nostr.Event) (bool, string) {
	sub := submissionOf(ctx)
	if r.plugin == nil || sub == nil || ev.Kind == kindDeletion || ev.Kind == kindVanish {
		return false, ""
	}
	v := r.plugin.ask(ctx, sub)
	r.metrics.pluginVerdicts.WithLabelValues(v.kind).Inc()
	if v.kind == verdictShadow {
		sub.settled = &answer{ok: true, result: resultShadowed}
	}
	return v.kind != verdictAccept, v.text
}

// ask waits for the verdict, not longer than the timeout.
func (p *plugin) ask(ctx context.Context, sub *submission) verdict {
	q := p.question(sub)
	select {
	case p.questions <- q:
	default:
		return pluginFull
	}
	timer := time.NewTimer(p.opts.Timeout)
	defer timer.Stop()
	select {
	case v := <-q.done:
		return v
	case <-timer.C:
		return pluginTimeout
	case <-ctx.Done():
		return pluginFailed
	}
}

func (p *plugin) question(sub *submission) *question {
	source, address := "IP4", sub.session.address.Unmap()
	if address.Is6() {
		source = "IP6"
	}
	line := make([]byte, 0, len(sub.rec.JSON)+128)
	line = append(append(line, `{"type":"new","event":`...), sub.rec.JSON...)
	line = fmt.Appendf(line, `,"receivedAt":%d,"sourceType":"%s","sourceInfo":"%s"}`+"\n", p.relay.opts.Now().Unix(), source, address)
	return &question{id: sub.rec.Event.ID, line: line, asked: time.Now(), done: make(chan verdict, 1)}
}

// pluginAnswer is one line of the program.
type pluginAnswer struct {
	ID     string `json:"id"`
	Action string `json:"action"`
	Msg    string `json:"msg"`
}

// parseAnswer reads one line.
func parseAnswer(line []byte) (id string, v verdict, err error) {
	var a pluginAnswer
	if err := json.Unmarshal(line, &a); err != nil {
		return "", verdict{}, errors.New("an answer is not a JSON object with id, action and msg")
	}
	switch a.Action {
	case "accept":
		return a.ID, verdict{kind: verdictAccept}, nil
	case "reject":
		return a.ID, verdict{verdictReject, refusalText(a.Msg)}, nil
	case "shadowReject":
		return a.ID, verdict{kind: verdictShadow}, nil
	}
	return "", verdict{}, errors.New("the action of an answer is not accept, reject or shadowReject")
}

// refusalText makes the program's text fit for the peer: one line that is not
// long, with a prefix of NIP-01.
func refusalText(msg string) string {
	msg = strings.TrimSpace(strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || c == utf8.RuneError {
			return ' '
		}
		return c
	}, msg))
	for len(msg) > maxPluginText {
		_, size := utf8.DecodeLastRuneInString(msg)
		msg = msg[:len(msg)-size]
	}
	if msg == "" {
		msg = "the policy of this relay does not take it"
	}
	switch prefix, _, found := strings.Cut(msg, ":"); prefix {
	case "duplicate", "pow", "blocked", "rate-limited", "invalid", "restricted", "mute", "error", "auth-required":
		if found {
			return msg
		}
	}
	return "blocked: " + msg
}
