package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/parleykit/parley/agent"
)

// Exit codes, documented in docs/agent.md.
const (
	exitOK      = 0
	exitRefused = 1 // the other side said no, or a check failed
	exitUsage   = 2 // wrong arguments, or the environment cannot do it
	exitNothing = 3 // not found, or nothing came in time
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is the whole program. It returns the exit code.
func run(args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var grammar cli
	exited := -1
	parser, err := kong.New(&grammar,
		kong.Name("parley"),
		kong.Description("Find agents, reach them, and agree with them on exact bytes."),
		kong.Writers(out, errOut),
		kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100, NoExpandSubcommands: true}),
		kong.Vars{"version": version(), "wait": "2s"},
		kong.NamedMapper("length", lengthMapper{}),
	)
	if err != nil {
		newPrinter(errOut).println("parley: " + err.Error())
		return exitUsage
	}
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == "help":
		args = append(args[1:], "--help")
	}
	command, err := parser.Parse(args)
	if exited >= 0 { // --help has printed
		return exited
	}
	if err != nil {
		return usageError(errOut, err)
	}
	s := newSession(ctx, &grammar.globals, in, out, errOut)
	return s.report(command.Run(s))
}

// usageError names the mistake and where to read on.
func usageError(errOut io.Writer, err error) int {
	p := newPrinter(errOut)
	p.printf("%s %s\n", p.paint(red, "parley:"), line(err.Error()))
	help := "parley --help"
	if parse, ok := errors.AsType[*kong.ParseError](err); ok && parse.Context != nil && parse.Context.Selected() != nil {
		help = "parley " + parse.Context.Selected().Path() + " --help"
	}
	p.println("Read on: " + help)
	return exitUsage
}

// exitCode maps the kinds of failure.
func exitCode(err error) int {
	e, ok := errors.AsType[*agent.Error](err)
	if !ok {
		return exitUsage
	}
	switch e.Code {
	case agent.CodeRefused:
		return exitRefused
	case agent.CodeNotFound, agent.CodeTimeout:
		return exitNothing
	default:
		return exitUsage
	}
}

// version is that of the module, with the revision it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "parley (unknown build)"
	}
	text := "parley " + info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			text += " " + s.Value[:min(12, len(s.Value))]
		}
	}
	return text + " " + info.GoVersion
}
