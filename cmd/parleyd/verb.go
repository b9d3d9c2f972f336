package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// invocation is one call of a verb.
type invocation struct {
	arguments
	verb           string
	words          []string // what follows the verb, without flags
	prepare        bool     // of key rotate
	filter         string   // of relay export
	json           bool     // of relay import
	stdout, stderr io.Writer
}

// verb is one thing parleyd does. The help texts are made of it.
type verb struct {
	name  string // one word or two
	args  string // as they are shown
	least int    // words that must follow the name
	most  int    // and that may
	line  string // what it does, on one line
	help  string // more, and examples; shown by -h
	flags func(*flag.FlagSet, *invocation)
	run   func(context.Context, *invocation) error
}

// verbs are all verbs, in the order of the help. It is a function since the
// help is made of it.
func verbs() []verb {
	return slices.Concat(
		eventVerbs(), roomVerbs(), // before "relay" and "venue", with which their names begin
		[]verb{
			{name: "relay", line: "serve the relay alone", run: servePart("relay")},
			{name: "venue", line: "serve the venue alone", run: servePart("venue")},
			{name: "init", args: "-origin URL", most: -1, line: "write a configuration, keys and DNS records"},
		},
		backupVerbs(), personVerbs(), keyVerbs(),
	)
}

func servePart(name string) func(context.Context, *invocation) error {
	return func(ctx context.Context, in *invocation) error {
		in.words = []string{name}
		return serveParts(ctx, in)
	}
}

// findVerb finds the verb that the words begin with, and what follows it; nil
// when there is none.
func findVerb(words []string) (*verb, []string) {
	for _, v := range verbs() {
		name := strings.Fields(v.name)
		if len(words) >= len(name) && slices.Equal(words[:len(name)], name) {
			return &v, words[len(name):]
		}
	}
	return nil, nil
}

// invoke reads the rest of the command line and runs the verb.
func (v *verb) invoke(ctx context.Context, in *invocation, rest []string) error {
	if v.run == nil { // init has flags of its own
		return runInit(rest, in.stdout, in.stderr)
	}
	flags := in.flagSet("parleyd "+v.name, v.usage)
	if v.flags != nil {
		v.flags(flags, in)
	}
	for { // flags may stand before, between and after the words
		if err := parse(flags, rest); err != nil {
			return err
		}
		if flags.NArg() == 0 {
			break
		}
		in.words, rest = append(in.words, flags.Arg(0)), flags.Args()[1:]
	}
	if v.most == 0 && len(in.words) > 0 {
		return fmt.Errorf("%w: %q is no verb; parleyd -h lists the verbs", errRefused, v.name+" "+strings.Join(in.words, " "))
	}
	if len(in.words) < v.least || len(in.words) > v.most {
		return fmt.Errorf("%w: want %s", errRefused, v.synopsis())
	}
	in.verb = v.name
	return v.run(ctx, in)
}

// refused marks an error of a verb after which nothing was changed.
func (in *invocation) refused(err error) error {
	return fmt.Errorf("%w: %s: %w", errRefused, in.verb, err)
}

// again is a command of the same configuration, as it is typed.
func (in *invocation) again(command string) string {
	if in.config != "" {
		command = "-c " + in.config + " " + command
	}
	return "parleyd " + command
}

func (v *verb) synopsis() string {
	return strings.TrimSpace("parleyd [-c FILE] " + v.name + " " + v.args)
}

// usage explains one verb.
func (v *verb) usage(flags *flag.FlagSet) {
	out := flags.Output()
	fmt.Fprintf(out, "Usage: %s\n\n%s.\n", v.synopsis(), strings.ToUpper(v.line[:1])+v.line[1:])
	if v.help != "" {
		fmt.Fprintf(out, "\n%s\n", strings.TrimSpace(v.help))
	}
	fmt.Fprint(out, "\nFlags:\n")
	flags.PrintDefaults()
}

// usage explains the program.
func usage(flags *flag.FlagSet) {
	out := flags.Output()
	fmt.Fprint(out, "Usage: parleyd [flags] [VERB …]\n\nWithout a verb it serves the relay and the venue.\n\nVerbs, each explained by parleyd VERB -h:\n")
	for _, v := range verbs() {
		fmt.Fprintf(out, "  %-41s %s\n", strings.TrimSpace(v.name+" "+v.args), v.line)
	}
	fmt.Fprint(out, "\nFlags:\n")
	flags.PrintDefaults()
	fmt.Fprint(out, "\nExamples:\n"+
		"  parleyd                                      on loopback, data in ./parley-data\n"+
		"  parleyd init -origin https://parley.example  prepare a server for others\n"+
		"  parleyd -c parley.yaml                       serve it\n")
}

// flagSet has the flags of every verb.
func (in *invocation) flagSet(name string, usage func(*flag.FlagSet)) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(in.stderr)
	flags.Usage = func() { usage(flags) }
	flags.StringVar(&in.config, "c", in.config, "configuration `file`; without one everything is served on loopback")
	flags.StringVar(&in.logLevel, "log.level", in.logLevel, "debug, info, warn or error; overrides the configuration")
	flags.StringVar(&in.logFormat, "log.format", in.logFormat, "text or json; overrides the configuration")
	return flags
}

func parse(flags *flag.FlagSet, args []string) error {
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return fmt.Errorf("%w: see %s -h", errRefused, flags.Name())
	}
	return nil
}
