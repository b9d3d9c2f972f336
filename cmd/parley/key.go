package main

import (
	"fmt"
	"io"
	"os"

	"github.com/nbd-wtf/go-nostr/nip19"

	"github.com/parleykit/parley/agent"
)

type keyCmd struct {
	Show       keyShowCmd       `cmd:"" default:"1" help:"List the keys of this home."`
	Import     keyImportCmd     `cmd:"" help:"Bring a key into a home without one."`
	Export     keyExportCmd     `cmd:"" help:"Write a backup of the key."`
	Passphrase keyPassphraseCmd `cmd:"" help:"Protect the key by a passphrase, or not."`
	Succeed    keySucceedCmd    `cmd:"" help:"Make a new key take the place of this one."`
	Revoke     keyRevokeCmd     `cmd:"" help:"Ask the relays to delete your card."`
}

// Help is printed below the commands.
func (c *keyCmd) Help() string {
	return `The key is the agent: who has it can speak as it and read what was sealed to it.
A key with a passphrase needs --passphrase-file FILE, or PARLEY_PASSPHRASE_FILE, with
every command; the file has one line and mode 0600. A passphrase is never an argument.

Examples:
  parley key show
  parley key export --to backup.txt
  parley key passphrase set new-passphrase.txt`
}

type keyShowCmd struct{}

// Help is printed below the flags.
func (c *keyShowCmd) Help() string {
	return `Shows public keys only. The npub of a key with a passphrase needs the passphrase.
active: in use. next: made by a succession that has not ended. retired: was in use.

Example:
  parley key show --json`
}

// Run lists the keys. It works beside a daemon.
func (c *keyShowCmd) Run(s *session) error {
	home, err := s.home()
	if err != nil {
		return err
	}
	ring, err := agent.ReadKeys(home, s.flags.PassphraseFile)
	if err != nil {
		return err
	}
	list, err := ring.Keys()
	if err != nil {
		return err
	}
	return s.print(map[string][]agent.Key{"keys": list}, func(p *printer) {
		var rows [][]string
		for _, k := range list {
			passphrase := "no"
			if k.Encrypted {
				passphrase = "yes"
			}
			rows = append(rows, []string{k.State, k.NPub, passphrase, k.File})
		}
		p.table([]string{"STATE", "AGENT", "PASSPHRASE", "FILE"}, rows)
	})
}

// withKeys gives fn the keys of the home while no other process uses it.
func (s *session) withKeys(fn func(*agent.Keyring) error) (err error) {
	home, err := s.home()
	if err != nil {
		return err
	}
	ring, err := agent.OpenKeys(home, s.flags.PassphraseFile)
	if err != nil {
		return err
	}
	defer func() {
		if closing := ring.Close(); err == nil {
			err = closing
		}
	}()
	return fn(ring)
}

type keyImportCmd struct {
	File string `arg:"" help:"File with the secret: nsec, ncryptsec or 64 hex digits; - reads standard input." placeholder:"FILE"`
}

// Help is printed below the flags.
func (c *keyImportCmd) Help() string {
	return `Do it before ` + "`parley init`" + `: a home that has a key keeps it. Importing the key that
is there changes nothing. With --passphrase-file an ncryptsec is opened, and the key is
stored with the passphrase.

Examples:
  parley key import backup.txt
  parley key import - < backup.txt`
}

// maxSecret bounds what is read of a file to import, in bytes.
const maxSecret = 4096

// Run imports a key.
func (c *keyImportCmd) Run(s *session) error {
	secret, err := c.read(s.in)
	if err != nil {
		return &agent.Error{Code: agent.CodeInvalid, Detail: "reading the key: " + err.Error()}
	}
	return s.withKeys(func(ring *agent.Keyring) error {
		npub, err := ring.Import(secret)
		if err != nil {
			return err
		}
		return s.print(map[string]string{"npub": npub}, func(p *printer) {
			p.fields("agent", npub)
			s.note("next: parley init --server URL")
		})
	})
}

func (c *keyImportCmd) read(in io.Reader) (string, error) {
	if c.File != "-" {
		file, err := os.Open(c.File)
		if err != nil {
			return "", err
		}
		defer file.Close()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, maxSecret+1))
	if err == nil && len(data) > maxSecret {
		err = fmt.Errorf("more than %d bytes", maxSecret)
	}
	return string(data), err
}

type keyExportCmd struct {
	To               string `help:"File to write; it must not exist." required:"" placeholder:"FILE" type:"path"`
	BackupPassphrase string `help:"File with a passphrase for the backup. Without it that of the key, if it has one." placeholder:"FILE" type:"path"`
}

// Help is printed below the flags.
func (c *keyExportCmd) Help() string {
	return `Writes one line of mode 0600: nsec1…, or ncryptsec1… (NIP-49) with a passphrase. Keep it
as private as the key. Other Nostr programs read it too.

Examples:
  parley key export --to backup.txt
  parley key export --to backup.txt --backup-passphrase passphrase.txt`
}

// Run writes a backup.
func (c *keyExportCmd) Run(s *session) error {
	passphrase := c.BackupPassphrase
	if passphrase == "" {
		passphrase = s.flags.PassphraseFile
	}
	return s.withKeys(func(ring *agent.Keyring) error {
		npub, err := ring.Export(c.To, passphrase)
		if err != nil {
			return err
		}
		return s.print(map[string]any{"npub": npub, "file": c.To, "encrypted": passphrase != ""}, func(p *printer) {
			p.fields("agent", npub, "backup", line(c.To))
			if passphrase == "" {
				s.note("the backup is in clear: who reads it is this agent")
			}
		})
	})
}

type keyPassphraseCmd struct {
	Set    keyPassphraseSetCmd    `cmd:"" help:"Store the keys with another passphrase."`
	Remove keyPassphraseRemoveCmd `cmd:"" help:"Store the keys in clear."`
}

type keyPassphraseSetCmd struct {
	File string `arg:"" help:"File with the new passphrase: one line, mode 0600." placeholder:"FILE" type:"path"`
}

// Help is printed below the flags.
func (c *keyPassphraseSetCmd) Help() string {
	return `A key that has a passphrase needs the old one by --passphrase-file. A lost passphrase
is a lost key. Backups made before keep the passphrase they were made with.

Example:
  parley key passphrase set new.txt --passphrase-file old.txt`
}

// Run sets the passphrase.
func (c *keyPassphraseSetCmd) Run(s *session) error { return s.setPassphrase(c.File) }

type keyPassphraseRemoveCmd struct{}

// Run removes the passphrase.
func (c *keyPassphraseRemoveCmd) Run(s *session) error { return s.setPassphrase("") }

func (s *session) setPassphrase(file string) error {
	return s.withKeys(func(ring *agent.Keyring) error {
		if err := ring.SetPassphrase(file); err != nil {
			return err
		}
		return s.print(map[string]bool{"encrypted": file != ""}, func(p *printer) {
			if file == "" {
				p.println("the key is stored in clear")
				return
			}
			p.println("the key is stored with the passphrase")
			s.note("from now on: --passphrase-file %s, or PARLEY_PASSPHRASE_FILE", file)
		})
	})
}

type keySucceedCmd struct {
	Force bool `help:"Go on although agreements are open or messages are queued."`
}

// Help is printed below the flags.
func (c *keySucceedCmd) Help() string {
	return `Makes a new key and publishes two cards: that of the new key, which names the old one,
and the last card of the old key, which names the new one. Then the new key is in use and
the old one is kept as retired. Stop ` + "`parley run`" + ` first. After a stop, run it again.

Contacts see the move with ` + "`parley card show`" + ` and ` + "`parley find`" + `. They have to accept it:
nothing follows by itself, and messages to the old key are not read any more.

Example:
  parley key succeed`
}

// Run changes the key.
func (c *keySucceedCmd) Run(s *session) error {
	var r agent.SucceedKeyResponse
	if err := s.call("key.succeed", agent.SucceedKeyRequest{Force: c.Force}, &r); err != nil {
		return err
	}
	return s.print(r, func(p *printer) {
		p.fields("old", r.Old, "new", r.New)
		s.refusedBy(r.Relays)
		s.note("back the new key up: parley key export --to FILE")
		s.note("your contacts accept it with: parley contact accept %s", r.New)
	})
}

type keyRevokeCmd struct{}

// Help is printed below the flags.
func (c *keyRevokeCmd) Help() string {
	return `Publishes a deletion request (kind 5) for your card and your relay list, and does not
publish the card again until you do. Relays that honour it stop showing the card; copies
elsewhere stay. It does not make the key worthless: whoever has the key can still sign,
publish a card again and read what is sealed to it. If the key was stolen, tell your
contacts over another way.

Example:
  parley key revoke`
}

// Run revokes the card.
func (c *keyRevokeCmd) Run(s *session) error {
	var r agent.RevokeKeyResponse
	if err := s.call("key.revoke", agent.Empty{}, &r); err != nil {
		return err
	}
	return s.print(r, func(p *printer) {
		p.fields("agent", r.NPub)
		s.refusedBy(r.Relays)
		p.println("the card is deleted where relays honour it; the key still works")
	})
}

// refusedBy names the relays that did not take an event.
func (s *session) refusedBy(results []agent.Published) {
	for _, r := range results {
		if !r.OK {
			s.note("%s did not take kind %d: %s", r.Relay, r.Kind, r.Reason)
		}
	}
}

// name is what somebody is called: by petname, else by npub.
func name(petname, npub string) string {
	if petname != "" {
		return petname
	}
	return npub
}

// npub is the NIP-19 form of a hex key, "" for none.
func npub(pubkey string) string {
	text, err := nip19.EncodePublicKey(pubkey)
	if pubkey == "" || err != nil {
		return ""
	}
	return text
}

// moved says that somebody's card names a successor, and what to do about it.
func (s *session) moved(who, successor string, proven bool) {
	successor = npub(successor)
	switch {
	case successor == "":
	case proven:
		s.note("%s moved to %s; accept with: parley contact accept %s", who, successor, successor)
	default:
		s.note("%s names %s as its successor, and that key does not confirm it: do not accept it", who, successor)
	}
}
