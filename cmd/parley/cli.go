package main

import (
	"fmt"
	"reflect"
	"time"

	"github.com/alecthomas/kong"

	"github.com/parleykit/parley/agent"
)

// globals are the flags every command takes.
type globals struct {
	Home string `help:"Folder of this agent." env:"PARLEY_HOME" placeholder:"DIR" type:"path"`
	JSON bool   `help:"Print one JSON value instead of text." name:"json"`

	PassphraseFile string `help:"File with the passphrase of the key, where it has one." env:"PARLEY_PASSPHRASE_FILE" placeholder:"FILE"`
}

// cli is the grammar.
type cli struct {
	globals
	PrintVersion kong.VersionFlag `name:"version" hidden:""`

	Init    initCmd    `cmd:"" help:"Make a key and use a server." group:"Begin"`
	Status  statusCmd  `cmd:"" help:"Show who this agent is and what waits for it." group:"Begin"`
	Trust   trustCmd   `cmd:"" help:"Accept a server's new key after comparing its fingerprint." group:"Begin"`
	Doctor  doctorCmd  `cmd:"" help:"Look whether this agent is reached over each carrier, or at a server." group:"Begin"`
	Key     keyCmd     `cmd:"" help:"Show, import, back up and replace the agent's key." group:"Begin"`
	Run     runCmd     `cmd:"" help:"Stay up: deliver, receive, answer on agent.sock." group:"Begin"`
	MCP     mcpCmd     `cmd:"" name:"mcp" help:"Serve a language model over standard input and output." group:"Begin"`
	OpenAPI openAPICmd `cmd:"" name:"openapi" help:"Print the OpenAPI document of agent.sock." group:"Begin"`
	Version versionCmd `cmd:"" help:"Print the version." group:"Begin"`

	Card    cardCmd    `cmd:"" help:"Show cards, publish your own." group:"Find"`
	Find    findCmd    `cmd:"" help:"Look for agents by key or capability." group:"Find"`
	Contact contactCmd `cmd:"" help:"Add, list, accept, remove contacts." group:"Find"`
	Export  exportCmd  `cmd:"" help:"Write everything stored about a key." group:"Find"`
	Erase   eraseCmd   `cmd:"" help:"Delete what is stored about a key." group:"Find"`

	Send    sendCmd    `cmd:"" help:"Send a text." group:"Reach"`
	Inbox   inboxCmd   `cmd:"" help:"Read texts." group:"Reach"`
	Outbox  outboxCmd  `cmd:"" help:"List, requeue, purge sent messages." group:"Reach"`
	Carrier carrierCmd `cmd:"" help:"List, add and remove the ways by which this agent is reached." group:"Reach"`
	Relay   relayCmd   `cmd:"" help:"Check, export, fill and mirror a relay." group:"Reach"`

	Propose  proposeCmd  `cmd:"" help:"Lock a draft and ask others to agree." group:"Agree"`
	Review   reviewCmd   `cmd:"" help:"Read exactly what would be agreed." group:"Agree"`
	Comment  commentCmd  `cmd:"" help:"Say something that binds nobody." group:"Agree"`
	Agree    agreeCmd    `cmd:"" help:"Agree to a digest. Irreversible." group:"Agree"`
	Disagree disagreeCmd `cmd:"" help:"Disagree with a digest. Irreversible, ends it." group:"Agree"`
	Abstain  abstainCmd  `cmd:"" help:"Abstain. Irreversible, ends it without consensus." group:"Agree"`
	Withdraw withdrawCmd `cmd:"" help:"Take your own proposal back before the first decision." group:"Agree"`
	Verify   verifyCmd   `cmd:"" help:"Check a bundle offline." group:"Agree"`
	Receipt  receiptCmd  `cmd:"" help:"Verify, read and issue receipts." group:"Agree"`
}

// length is a duration that people write with days too: 30s, 48h, 90d.
type length time.Duration

// lengthMapper reads a length from the command line.
type lengthMapper struct{}

// Decode implements kong.Mapper.
func (lengthMapper) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("length", &text); err != nil {
		return err
	}
	d, err := agent.ParseLength(text)
	if err != nil {
		return fmt.Errorf("%q is no length; write it like 30s, 48h or 90d", text)
	}
	if d < 0 {
		return fmt.Errorf("%q is negative", text)
	}
	target.SetInt(int64(d))
	return nil
}

type versionCmd struct{}

// Run prints the version.
func (c *versionCmd) Run(s *session) error {
	return s.print(map[string]string{"version": version()}, func(p *printer) { p.println(version()) })
}

type openAPICmd struct{}

// Run prints the document.
func (c *openAPICmd) Run(s *session) error {
	_, err := s.out.out.Write(agent.OpenAPI())
	return err
}
