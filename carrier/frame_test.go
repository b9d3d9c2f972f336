package carrier

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"regexp"
	"testing"

	"pgregory.net/rapid"
)

// exampleFrames are the hex and the text of docs/spec/frame.md.
var exampleFrames = regexp.MustCompile("(?s)```hex\n(.*?)```.*?```text\n(.*?)```.*?```json\n(.*?)\n```")

func TestExampleOfTheSpecificationIsWhatWeWrite(t *testing.T) {
	page, err := os.ReadFile("../docs/spec/frame.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := exampleFrames.FindSubmatch(page)
	if parts == nil {
		t.Fatal("docs/spec/frame.md has no example")
	}
	binaryFrame, err := hex.DecodeString(string(bytes.Join(bytes.Fields(parts[1]), nil)))
	if err != nil {
		t.Fatal(err)
	}
	text, wrap := bytes.TrimSpace(parts[2]), parts[3]
	frames, err := Split(wrap, 96, false)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(frames[1], binaryFrame) {
		t.Errorf("second frame: %x", frames[1])
	}
	f, err := ParseFrame(text)
	if err != nil {
		t.Fatalf("text mode: %v; ours is %s", err, Frame{frameKey(wrap), 64, len(wrap), wrap[64:]}.Encode(true))
	}
	if again := f.Encode(true); !bytes.Equal(again, text) || !bytes.Equal(f.Encode(false), binaryFrame) {
		t.Errorf("text mode: %s", again)
	}
}

func TestSplitWrapIsAssembledFromFramesOfTwoCarriersInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wrap := rapid.SliceOfN(rapid.Byte(), 1, 4000).Draw(t, "wrap")
		var pieces []piece
		for range 2 {
			text := rapid.Bool().Draw(t, "text")
			limit := rapid.IntRange(200, 5000).Draw(t, "limit")
			frames, err := Split(wrap, limit, text)
			if err != nil {
				t.Fatal(err)
			}
			for _, data := range frames {
				if len(data) > limit || !IsFrame(data) {
					t.Fatalf("a frame of %d bytes under a limit of %d", len(data), limit)
				}
				f, err := ParseFrame(data)
				if err != nil || f.Total != len(wrap) || f.Wrap != frameKey(wrap) {
					t.Fatalf("%+v, %v", f, err)
				}
				pieces = append(pieces, piece{f.Offset, f.Payload})
			}
		}
		pieces = rapid.Permutation(pieces).Draw(t, "order")
		got, tried := assemble(pieces, frameKey(wrap), len(wrap))
		if !bytes.Equal(got, wrap) || tried != 1 {
			t.Fatalf("got %d bytes after %d tries", len(got), tried)
		}
	})
}

func TestEveryFlippedBitOfAFrameIsSeen(t *testing.T) {
	frame := Frame{frameKey([]byte("x")), 0, 100, bytes.Repeat([]byte("abcd"), 25)}.Encode(false)
	for i := range len(frame) * 8 {
		bad := bytes.Clone(frame)
		bad[i/8] ^= 1 << (i % 8)
		if f, err := ParseFrame(bad); !errors.Is(err, ErrFrame) {
			t.Fatalf("bit %d: %+v, %v", i, f, err)
		}
	}
}

func TestFramesOutsideTheirLimitsAreRefused(t *testing.T) {
	whole := bytes.Repeat([]byte{7}, 100)
	good := Frame{Total: 200, Payload: whole}
	if _, err := ParseFrame(good.Encode(false)); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]Frame{
		"beyond the wrap":  {Offset: 101, Total: 200, Payload: whole},
		"too large a wrap": {Total: MaxFramed + 1, Payload: whole},
		"too small":        {Total: 200, Payload: whole[:63]},
		"empty":            {Total: 200},
		"offset overflows": {Offset: 1<<32 - 50, Total: 200, Payload: whole},
	} {
		if _, err := ParseFrame(f.Encode(false)); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"", "PF", "UEYB", "UEYB====", string(good.Encode(true)) + "=", string(good.Encode(true)) + "\n"} {
		if _, err := ParseFrame([]byte(text)); !errors.Is(err, ErrFrame) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	for _, limit := range []int{-1, 0, 32, 95} {
		if _, err := Split(whole, limit, false); !errors.Is(err, ErrFrame) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	if _, err := Split(make([]byte, MaxFramed+1), 1000, false); !errors.Is(err, ErrFrame) {
		t.Errorf("a wrap that is too long: %v", err)
	}
}

func TestContradictionsAreSolvedWithinFourCombinations(t *testing.T) {
	wrap := bytes.Repeat([]byte("0123456789"), 40)
	good := func(from, to int) piece { return piece{from, wrap[from:to]} }
	bad := func(from, to int) piece { return piece{from, bytes.Repeat([]byte{'x'}, to-from)} }
	for name, test := range map[string]struct {
		pieces []piece
		found  bool
		tried  int
	}{
		"a gap":                   {[]piece{good(0, 100), good(101, 400)}, false, 0},
		"beyond the end":          {[]piece{good(0, 400), {390, make([]byte, 20)}}, false, 0},
		"one bad, one good":       {[]piece{bad(0, 100), good(0, 100), good(100, 400)}, true, 2},
		"all bad came first":      {[]piece{bad(0, 100), bad(100, 200), bad(200, 400), good(0, 100), good(100, 200), good(200, 400)}, true, 2},
		"good and bad mixed":      {[]piece{bad(0, 200), good(0, 200), good(200, 400), bad(200, 400)}, true, 3},
		"overlap contradicts":     {[]piece{good(0, 250), bad(200, 400), good(250, 400)}, true, 4},
		"only bad":                {[]piece{bad(0, 400)}, false, 1},
		"too many contradictions": {[]piece{bad(0, 100), good(0, 100), good(100, 200), bad(100, 200), bad(200, 300), good(200, 300), good(300, 400), bad(300, 400)}, false, 4},
	} {
		got, tried := assemble(test.pieces, frameKey(wrap), len(wrap))
		if (got != nil) != test.found || test.found && !bytes.Equal(got, wrap) || tried != test.tried {
			t.Errorf("%s: found %v after %d tries, want %v after %d", name, got != nil, tried, test.found, test.tried)
		}
	}
}

func FuzzParseFrame(f *testing.F) {
	frame := Frame{frameKey([]byte("x")), 64, 164, bytes.Repeat([]byte("abcd"), 25)}
	f.Add(frame.Encode(false))
	f.Add(frame.Encode(true))
	f.Add([]byte("PF\x01\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := ParseFrame(data)
		if err != nil {
			return
		}
		if len(got.Payload) == 0 || got.Offset+len(got.Payload) > got.Total || got.Total > MaxFramed {
			t.Fatalf("accepted %+v", got)
		}
		if !bytes.Equal(got.Encode(data[0] != 'P'), data) {
			t.Fatal("a second spelling of one frame")
		}
	})
}

func FuzzAssemble(f *testing.F) {
	f.Add([]byte{0, 64, 1, 64, 128, 2, 0, 64, 3}, 128)
	f.Fuzz(func(t *testing.T, script []byte, total int) {
		if total < 1 || total > 4096 || len(script) > 300 {
			return
		}
		var pieces []piece
		for ; len(script) >= 3; script = script[3:] {
			from := int(binary.BigEndian.Uint16([]byte{script[0] % 16, script[1]}))
			pieces = append(pieces, piece{from, bytes.Repeat(script[2:3], 1+int(script[1]))})
		}
		if wrap, tried := assemble(pieces, [16]byte{}, total); wrap != nil || tried > maxCombinations {
			t.Fatalf("%d bytes after %d tries", len(wrap), tried)
		}
	})
}
