package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"

	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/wellknown"
)

// keyVerbs look after the keys of the server.
func keyVerbs() []verb {
	return []verb{
		{
			name: "key list", line: "list the keys with their states",
			help: `The server's fingerprint is what agents pin; the venue is named by its npub.

Example:
  parleyd -c parley.yaml key list`, run: runKeyList,
		},
		{
			name: "key rotate", args: "server [-prepare]", least: 1, most: 1, line: "put the prepared key of the server in use",
			help: `First prepare the key and announce its fingerprint over another
way; then rotate and restart the server. Agents refuse the new key until their
owner runs parley trust URL and has compared the fingerprint. The old key is
kept as retired. docs/keys.md tells the whole way.

Examples:
  parleyd -c parley.yaml key rotate server -prepare
  parleyd -c parley.yaml key rotate server`,
			flags: func(flags *flag.FlagSet, in *invocation) {
				flags.BoolVar(&in.prepare, "prepare", false, "make the next key and show its fingerprint; the key in use stays")
			}, run: runKeyRotate,
		},
	}
}

// openKeys opens the key folder of a server that exists.
func (in *invocation) openKeys() (*keys.Dir, error) {
	cfg, err := loadConfig(in.arguments, nil)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(cfg.KeysDir()); errors.Is(err, fs.ErrNotExist) {
		return nil, in.refused(fmt.Errorf("there is no server in %s", cfg.Data))
	}
	dir, err := keys.Open(cfg.KeysDir())
	if err != nil {
		return nil, in.refused(err)
	}
	return dir, nil
}

func runKeyList(_ context.Context, in *invocation) error {
	dir, err := in.openKeys()
	if err != nil {
		return err
	}
	files, err := dir.List()
	if err != nil {
		return in.refused(err)
	}
	for _, file := range files {
		name, err := publicName(dir, file)
		if err != nil {
			return in.refused(err)
		}
		fmt.Fprintf(in.stdout, "%-8s %s  %-8s %s\n", file.Purpose, file.KID, file.State, name)
	}
	return nil
}

// publicName is how other programs show a key: the fingerprint of a server's,
// the npub of a venue's.
func publicName(dir *keys.Dir, file keys.File) (string, error) {
	switch file.Purpose {
	case keys.Server:
		key, err := dir.OpenEd25519(file)
		if err != nil {
			return "", err
		}
		return "fingerprint " + wellknown.Fingerprint(key.PublicKey()), nil
	case keys.Venue:
		key, err := dir.OpenNostr(file)
		if err != nil {
			return "", err
		}
		return key.NPub(), nil
	}
	return "", nil
}

func runKeyRotate(_ context.Context, in *invocation) error {
	switch purpose := keys.Purpose(in.words[0]); purpose {
	case keys.Server:
	case keys.Venue:
		return in.refused(errors.New("a venue keeps its key: every agreement names it, and its members know the venue by it"))
	default:
		return in.refused(fmt.Errorf("the server has no key of the purpose %.20q to rotate; server is one", in.words[0]))
	}
	dir, err := in.openKeys()
	if err != nil {
		return err
	}
	current, err := dir.Ed25519(keys.Server)
	if err != nil {
		return in.refused(err)
	}
	if in.prepare {
		return in.prepareKey(dir, wellknown.Fingerprint(current.PublicKey()))
	}
	switch _, err := dir.Next(keys.Server); {
	case errors.Is(err, keys.ErrNoKey):
		return in.refused(errors.New("no key is prepared; run parleyd key rotate server -prepare first and announce its fingerprint"))
	case err != nil:
		return in.refused(err)
	}
	if _, err := dir.Rotate(keys.Server); err != nil {
		return fmt.Errorf("rotating, run it again: %w", err)
	}
	key, err := dir.Ed25519(keys.Server)
	if err != nil {
		return err
	}
	fmt.Fprintf(in.stdout, "was      %s\nnow      %s\n\nRestart the server. Agents go on with what they have pinned until their owner runs\n    parley trust URL\n",
		wellknown.Fingerprint(current.PublicKey()), wellknown.Fingerprint(key.PublicKey()))
	return nil
}

// prepareKey makes the next key, or shows the one that is there.
func (in *invocation) prepareKey(dir *keys.Dir, current string) error {
	next, err := dir.NextEd25519(keys.Server)
	if err != nil {
		return in.refused(err)
	}
	fmt.Fprintf(in.stdout, "now      %s\nnext     %s\n\nAnnounce the next fingerprint over another way, such as your web page. Then run\n    parleyd key rotate server\n",
		current, wellknown.Fingerprint(next.PublicKey()))
	return nil
}
