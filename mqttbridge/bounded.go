package mqttbridge

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
)

const (
	typePublish = 3
	// maxControl bounds every packet but a PUBLISH, in bytes; the longest is a SUBACK.
	maxControl = 64 << 10
	// keptPublish is what is read of a PUBLISH: the longest topic, its length, a packet
	// identifier and one byte more than the longest payload. What is cut to this is
	// therefore seen to be too large, and is acknowledged like any other.
	keptPublish = 2 + 0xffff + 2 + MaxPayload + 1
)

var errPacket = errors.New("mqttbridge: a packet is malformed or too large")

// boundedConn bounds the packets that a broker sends. The client library would make
// room for as much as the broker announces, which may be 256 MiB.
type boundedConn struct {
	net.Conn
	reader *bufio.Reader
	head   []byte // of the packet, to be read next
	body   int    // bytes of the packet that follow
	excess int    // bytes of it that nobody sees
}

func bounded(conn net.Conn) net.Conn { return &boundedConn{Conn: conn, reader: bufio.NewReader(conn)} }

// Read implements net.Conn.
func (b *boundedConn) Read(p []byte) (int, error) {
	if len(b.head) == 0 && b.body == 0 {
		if err := b.next(); err != nil {
			return 0, err
		}
	}
	if len(b.head) > 0 {
		n := copy(p, b.head)
		b.head = b.head[n:]
		return n, nil
	}
	n, err := b.reader.Read(p[:min(len(p), b.body)])
	b.body -= n
	return n, err
}

// next reads the fixed header of a packet (MQTT 3.1.1, section 2.2).
func (b *boundedConn) next() error {
	if _, err := io.CopyN(io.Discard, b.reader, int64(b.excess)); err != nil {
		return err
	}
	b.excess = 0
	first, err := b.reader.ReadByte()
	if err != nil {
		return err
	}
	length, err := binary.ReadUvarint(io.ByteReader(b.reader))
	switch {
	case err != nil:
		return err
	case length >= 1<<28, first>>4 != typePublish && length > maxControl:
		return errPacket
	}
	b.body = min(int(length), keptPublish)
	b.excess = int(length) - b.body
	b.head = binary.AppendUvarint([]byte{first}, uint64(b.body))
	return nil
}
