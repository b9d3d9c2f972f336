package disktest

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sector is what a disk writes whole or not at all.
const sector = 512

// node is a file or folder: what lasts, and what was changed since, in order.
type node struct {
	// Of a file.
	lasting []byte
	changes []change
	// Of a folder; nil for a file.
	durable map[string]*node
	live    map[string]*node
	moves   []move
}

// change is one write, or a truncation when data is nil.
type change struct {
	at   int64 // offset, or the new size
	data []byte
	end  int
}

// move is a name that was given, or taken away when to is nil.
type move struct {
	name string
	to   *node
	end  int
}

func newFolder() *node { return &node{durable: map[string]*node{}, live: map[string]*node{}} }

// Image writes the disk as a power cut at a point of the run may have left it
// into the folder to. Without rng nothing has lasted that was not synced. With
// it, a random part of it has.
func (r *Recording) Image(t testing.TB, at int, to string, rng *rand.Rand) {
	t.Helper()
	d := &disk{root: newFolder(), prefix: r.root, positions: map[string]int64{}, luck: survival(rng)}
	for i := range r.ops {
		if r.ops[i].end < at {
			d.apply(&r.ops[i])
		}
	}
	if err := d.root.write(to, d.luck); err != nil {
		t.Fatal(err)
	}
}

// survives decides about one piece of what was not synced.
type survives struct {
	rng    *rand.Rand
	chance float64
}

func survival(rng *rand.Rand) survives {
	if rng == nil {
		return survives{}
	}
	return survives{rng, []float64{0.1, 0.5, 0.9, 1}[rng.IntN(4)]}
}

func (s survives) yes() bool { return s.rng != nil && s.rng.Float64() < s.chance }

// prefix is how many of n changes of a folder have lasted: file systems keep
// their order.
func (s survives) prefix(n int) int {
	if s.rng == nil {
		return 0
	}
	return s.rng.IntN(n + 1)
}

// disk replays calls.
type disk struct {
	root      *node
	prefix    string
	positions map[string]int64 // of descriptors, for write
	luck      survives
}

// find is the node of a path and its folder; nil where there is none.
func (d *disk) find(path string) (folder, found *node, name string) {
	folder, found = nil, d.root
	for _, part := range strings.Split(strings.Trim(strings.TrimPrefix(path, d.prefix), "/"), "/") {
		if part == "" {
			continue
		}
		if found == nil || found.live == nil {
			return nil, nil, part
		}
		folder, name = found, part
		found = found.live[part]
	}
	return folder, found, name
}

func (d *disk) apply(o *op) {
	folder, found, name := d.find(o.path)
	switch o.call {
	case "open", "openat":
		if found == nil && o.create && folder != nil {
			found = &node{}
			folder.give(name, found, o.end)
		}
		if found != nil && o.truncate {
			found.changes = append(found.changes, change{end: o.end})
		}
		d.positions[o.fd] = 0
	case "mkdirat":
		if found == nil && folder != nil {
			folder.give(name, newFolder(), o.end)
		}
	case "unlink", "unlinkat":
		if folder != nil {
			folder.give(name, nil, o.end)
		}
	case "rename", "renameat", "renameat2":
		if target, _, newName := d.find(o.to); folder != nil && target != nil {
			target.give(newName, found, o.end)
			folder.give(name, nil, o.end)
		}
	case "fsync", "fdatasync":
		if found != nil {
			found.sync(o.start, o.failed, d.luck)
		}
	default:
		if found != nil {
			d.change(found, o)
		}
	}
}

func (d *disk) change(n *node, o *op) {
	switch o.call {
	case "ftruncate":
		n.changes = append(n.changes, change{at: o.size, end: o.end})
	case "pwrite64":
		n.changes = append(n.changes, change{at: o.at, data: o.data, end: o.end})
	case "write":
		n.changes = append(n.changes, change{at: d.positions[o.fd], data: o.data, end: o.end})
		d.positions[o.fd] += int64(len(o.data))
	}
}

func (n *node) give(name string, to *node, end int) {
	if to == nil {
		delete(n.live, name)
	} else {
		n.live[name] = to
	}
	n.moves = append(n.moves, move{name, to, end})
}

// sync makes last what was done before start. When it fails, a part has lasted
// at most, and the rest is lost for good, though the program may still read it.
func (n *node) sync(start int, failed bool, s survives) {
	var later []change
	for _, c := range n.changes {
		switch {
		case c.end >= start:
			later = append(later, c)
		case failed:
			n.lasting = c.torn(n.lasting, s)
		default:
			n.lasting = c.apply(n.lasting)
		}
	}
	n.changes = later
	if failed {
		return
	}
	var left []move
	for _, m := range n.moves {
		if m.end >= start {
			left = append(left, m)
			continue
		}
		m.apply(n.durable)
	}
	n.moves = left
}

func (m move) apply(names map[string]*node) {
	if m.to == nil {
		delete(names, m.name)
	} else {
		names[m.name] = m.to
	}
}

func (c change) apply(content []byte) []byte {
	if c.data == nil {
		return resize(content, c.at)
	}
	if end := c.at + int64(len(c.data)); end > int64(len(content)) {
		content = resize(content, end)
	}
	copy(content[c.at:], c.data)
	return content
}

// resize gives content another length; what is new is zero.
func resize(content []byte, size int64) []byte {
	if size <= int64(len(content)) {
		return content[:size:size]
	}
	return append(content, make([]byte, size-int64(len(content)))...)
}

// torn applies the sectors of a change that have lasted.
func (c change) torn(content []byte, s survives) []byte {
	if c.data == nil {
		if s.yes() {
			return c.apply(content)
		}
		return content
	}
	for from := int64(0); from < int64(len(c.data)); {
		to := min(int64(len(c.data)), from+sector-(c.at+from)%sector)
		if s.yes() {
			content = change{at: c.at + from, data: c.data[from:to]}.apply(content)
		}
		from = to
	}
	return content
}

// write makes the node at path.
func (n *node) write(path string, s survives) error {
	if n.live == nil {
		content := append([]byte(nil), n.lasting...)
		for _, c := range n.changes {
			content = c.torn(content, s)
		}
		return os.WriteFile(path, content, 0o600)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	names := maps.Clone(n.durable)
	for _, m := range n.moves[:s.prefix(len(n.moves))] {
		m.apply(names)
	}
	for name, child := range names {
		if err := child.write(filepath.Join(path, name), s); err != nil {
			return err
		}
	}
	return nil
}
