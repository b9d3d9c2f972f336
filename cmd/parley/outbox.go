package main

import (
	"fmt"
	"time"

	"github.com/parleykit/parley/agent"
)

type outboxCmd struct {
	List    outboxListCmd    `cmd:"" help:"List messages on their way and those that did not arrive."`
	Requeue outboxRequeueCmd `cmd:"" help:"Give dead messages another chance."`
	Purge   outboxPurgeCmd   `cmd:"" help:"Delete messages that are dead or expired."`
}

// Help is printed below the commands.
func (c *outboxCmd) Help() string {
	return `A message is dead when every address of its recipient refused it for good, and
expired when it did not arrive in time. The reason stands beside it.

Examples:
  parley outbox list
  parley outbox requeue 12
  parley outbox purge --all`
}

type outboxListCmd struct {
	All bool `help:"Acknowledged messages too."`
}

// Run lists the outbox.
func (c *outboxListCmd) Run(s *session) error {
	var r agent.OutboxResponse
	if err := s.call("outbox.list", agent.OutboxRequest{All: c.All}, &r); err != nil {
		return err
	}
	return s.print(r, func(p *printer) {
		if len(r.Messages) == 0 {
			p.println("nothing waits")
			return
		}
		var rows [][]string
		for _, m := range r.Messages {
			to := m.Name
			if to == "" {
				to = m.NPub
			}
			rows = append(rows, []string{
				fmt.Sprint(m.N), m.State, m.Type, to, m.SentAt.Format(time.DateTime), m.Reason,
			})
		}
		p.table([]string{"N", "STATE", "TYPE", "TO", "WRITTEN", "REASON"}, rows)
	})
}

type outboxRequeueCmd struct {
	N   int64 `arg:"" optional:"" help:"Number of the message, from the list."`
	All bool  `help:"All dead messages."`
}

// Run requeues dead messages.
func (c *outboxRequeueCmd) Run(s *session) error {
	return s.outbox("outbox.requeue", agent.OutboxChange{N: c.N, All: c.All}, "requeued")
}

type outboxPurgeCmd struct {
	N   int64 `arg:"" optional:"" help:"Number of the message, from the list."`
	All bool  `help:"All dead and expired messages."`
}

// Run deletes dead and expired messages.
func (c *outboxPurgeCmd) Run(s *session) error {
	return s.outbox("outbox.purge", agent.OutboxChange{N: c.N, All: c.All}, "purged")
}

func (s *session) outbox(operation string, request agent.OutboxChange, done string) error {
	var r agent.OutboxChanged
	if err := s.call(operation, request, &r); err != nil {
		return err
	}
	return s.print(r, func(p *printer) { p.println(fmt.Sprintf("%s: %d", done, r.Count)) })
}
