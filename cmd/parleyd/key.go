package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/parleykit/parley/internal/issuer"
	"github.com/parleykit/parley/internal/keys"
	"github.com/parleykit/parley/protocol/wellknown"
)

// keyVerbs look after the keys of the server.
func keyVerbs() []verb {
	return []verb{
		{
			name: "key list", line: "list the keys with their states",
			help: `The server's fingerprint is what agents pin; the venue is named by its npub,
a key of receipts by its kid.

Example:
  parleyd -c parley.yaml key list`, run: runKeyList,
		},
		{
			name: "key rotate", args: "server|issuer [-prepare]", least: 1, most: 1, line: "put the next key of the server or its receipts in use",
			help: `server: First prepare the key and announce its fingerprint over another
way; then rotate and restart the server. Agents refuse the new key until their
owner runs parley trust URL and has compared the fingerprint. The old key is
kept as retired. docs/keys.md tells the whole way.

issuer: Rotate and restart the server. Nothing needs to be announced: verifiers
find the new key by themselves, and the old one stays published for at least 30
days. A server with a loopback or http origin becomes another issuer, since it
is named by its key.

Examples:
  parleyd -c parley.yaml key rotate server -prepare
  parleyd -c parley.yaml key rotate server
  parleyd -c parley.yaml key rotate issuer`,
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
		fmt.Fprintln(in.stdout, strings.TrimSpace(fmt.Sprintf("%-10s  %s  %-7s  %s", file.Purpose, file.KID, file.State, name)))
	}
	return nil
}

// publicName is how other programs show a key: the fingerprint of a server's,
// the npub of a venue's, the kid of receipts.
func publicName(dir *keys.Dir, file keys.File) (string, error) {
	switch file.Purpose {
	case keys.Server:
		key, err := dir.OpenEd25519(file)
		if err != nil {
			return "", err
		}
		return "fingerprint " + wellknown.Fingerprint(key.PublicKey()), nil
	case keys.Issuer:
		key, err := dir.OpenEd25519(file)
		if err != nil {
			return "", err
		}
		return "kid " + issuer.KeyID(key.PublicKey()), nil
	case keys.Venue, keys.Bridge:
		key, err := dir.OpenNostr(file)
		if err != nil {
			return "", err
		}
		return key.NPub(), nil
	}
	return "", nil
}

func runKeyRotate(_ context.Context, in *invocation) error {
	var rotate func(*keys.Dir) error
	switch keys.Purpose(in.words[0]) {
	case keys.Server:
		rotate = in.rotateServer
	case keys.Issuer:
		rotate = in.rotateIssuer
	case keys.Venue:
		return in.refused(errors.New("a venue keeps its key: every agreement names it, and its members know the venue by it"))
	default:
		return in.refused(fmt.Errorf("the server has no key of the purpose %.20q to rotate; name server or issuer", in.words[0]))
	}
	dir, err := in.openKeys()
	if err != nil {
		return err
	}
	return rotate(dir)
}

func (in *invocation) rotateServer(dir *keys.Dir) error {
	current, err := dir.Ed25519(keys.Server)
	if err != nil {
		return in.refused(err)
	}
	if in.prepare {
		return in.prepareKey(dir, wellknown.Fingerprint(current.PublicKey()))
	}
	switch _, err := dir.Next(keys.Server); {
	case errors.Is(err, keys.ErrNoKey):
		return in.refused(fmt.Errorf("no key is prepared; run %s first and announce its fingerprint", in.again("key rotate server -prepare")))
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
	fmt.Fprintf(in.stdout, "now      %s\nnext     %s\n\nAnnounce the next fingerprint over another way, such as your web page. Then run\n    %s\n",
		current, wellknown.Fingerprint(next.PublicKey()), in.again("key rotate server"))
	return nil
}

func (in *invocation) rotateIssuer(dir *keys.Dir) error {
	current, err := dir.Ed25519(keys.Issuer)
	if err != nil {
		return in.refused(err)
	}
	before := issuer.KeyID(current.PublicKey())
	if in.prepare {
		next, err := dir.NextEd25519(keys.Issuer)
		if err != nil {
			return in.refused(err)
		}
		fmt.Fprintf(in.stdout, "now      %s\nnext     %s\n", before, issuer.KeyID(next.PublicKey()))
		return nil
	}
	key, err := issuer.RotateKey(dir, time.Now())
	if errors.Is(err, issuer.ErrOptions) {
		return in.refused(err)
	}
	if err != nil {
		return fmt.Errorf("rotating, run it again: %w", err)
	}
	fmt.Fprintf(in.stdout, "was      %s\nnow      %s\n\nRestart the server. Receipts under the old key can be verified as before.\n",
		before, issuer.KeyID(key.PublicKey()))
	return nil
}
