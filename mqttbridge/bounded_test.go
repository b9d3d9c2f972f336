package mqttbridge

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/iotest"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// source is a connection that says what a test wrote.
type source struct {
	net.Conn
	io.Reader
}

func (s source) Read(p []byte) (int, error) { return s.Reader.Read(p) }

// FuzzBoundedConn reads what a broker may send as the client library does. What is
// not too large comes through as it is, and nothing ever makes room for more.
func FuzzBoundedConn(f *testing.F) {
	f.Add([]byte{0x20, 2, 0, 0, 0xd0, 0})
	f.Add([]byte{0x32, 5, 0, 1, 'a', 0, 1})
	f.Add([]byte{0x32, 0xff, 0xff, 0xff, 0x7f, 0, 1, 'a'})
	f.Add([]byte{0x90, 0xff, 0xff, 0xff, 0x7f})
	f.Add([]byte{0x30, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01})
	f.Fuzz(func(t *testing.T, sent []byte) {
		conn := bounded(source{Reader: iotest.OneByteReader(bytes.NewReader(sent))})
		passed, err := io.ReadAll(conn)
		if err == nil && !bytes.Equal(cut(sent), passed) {
			t.Errorf("%x came as %x", sent, passed)
		}
		for r := bytes.NewReader(passed); ; {
			kind, err := r.ReadByte()
			if err != nil {
				return
			}
			length, err := binary.ReadUvarint(r)
			if err != nil || length > keptPublish || kind>>4 != typePublish && length > maxControl {
				t.Fatalf("a packet of %d bytes comes through (%v)", length, err)
			}
			_, _ = io.CopyN(io.Discard, r, int64(length))
		}
	})
}

// cut is what is left of a stream of packets that are well formed.
func cut(stream []byte) (out []byte) {
	for r := bytes.NewReader(stream); ; {
		kind, err := r.ReadByte()
		if err != nil {
			return out
		}
		length, err := binary.ReadUvarint(r)
		if err != nil {
			return out
		}
		kept := min(length, keptPublish)
		out = binary.AppendUvarint(append(out, kind), kept)
		body, _ := io.ReadAll(io.LimitReader(r, int64(kept)))
		out = append(out, body...)
		_, _ = io.CopyN(io.Discard, r, int64(length-kept))
	}
}

// A message that is too large is cut so that it is still seen to be too large, and
// what follows it comes through.
func TestBoundedConn_cutsWhatIsTooLarge(t *testing.T) {
	var stream bytes.Buffer
	for i, size := range []int{10, MaxPayload, MaxPayload + 1, 5 << 20, 10} {
		p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
		p.Qos, p.TopicName, p.MessageID, p.Payload = 1, "topic", uint16(i+1), bytes.Repeat([]byte{byte('a' + i)}, size)
		if err := p.Write(&stream); err != nil {
			t.Fatal(err)
		}
	}
	conn := bounded(source{Reader: &stream})
	for i, fits := range []bool{true, true, false, false, true} {
		packet, err := packets.ReadPacket(conn)
		if err != nil {
			t.Fatal(err)
		}
		p := packet.(*packets.PublishPacket)
		if p.MessageID != uint16(i+1) || p.TopicName != "topic" || fits != (len(p.Payload) <= MaxPayload) || len(p.Payload) > keptPublish {
			t.Errorf("message %d has %d bytes on %q", p.MessageID, len(p.Payload), p.TopicName)
		}
	}
}
