package mqttbridge_test

import (
	"net"
	"sync"
	"testing"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// fakeBroker is a broker that does what a test says, and notes what it was sent.
type fakeBroker struct {
	URL string

	silent   bool // it answers nothing, not even CONNECT
	code     byte // of CONNACK
	granted  byte // of SUBACK
	deaf     bool // it acknowledges no PUBLISH
	stuck    bool // it reads nothing after CONNECT
	greeting []byte

	done chan struct{} // closed with the test

	mu       sync.Mutex
	connects []*packets.ConnectPacket
	most     int // publishes of one connection that were not acknowledged
	acks     []uint16
	open     int
}

func startFake(t testing.TB, change func(*fakeBroker)) *fakeBroker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &fakeBroker{URL: "mqtt://" + l.Addr().String(), granted: 1, done: make(chan struct{})}
	change(b)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { <-b.done; conn.Close() })
			serving.Go(func() { b.serve(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); close(b.done); serving.Wait() })
	return b
}

func (b *fakeBroker) serve(conn net.Conn) {
	defer conn.Close()
	b.count(1)
	defer b.count(-1)
	mine := 0
	for {
		packet, err := packets.ReadPacket(conn)
		if err != nil {
			return
		}
		if b.silent {
			continue
		}
		switch p := packet.(type) {
		case *packets.ConnectPacket:
			b.note(func() { b.connects = append(b.connects, p) })
			ack := packets.NewControlPacket(packets.Connack).(*packets.ConnackPacket)
			ack.ReturnCode = b.code
			_ = ack.Write(conn)
			if b.stuck {
				<-b.done
				return
			}
		case *packets.SubscribePacket:
			ack := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
			ack.MessageID = p.MessageID
			for range p.Topics {
				ack.ReturnCodes = append(ack.ReturnCodes, b.granted)
			}
			_ = ack.Write(conn)
			_, _ = conn.Write(b.greeting)
		case *packets.PublishPacket:
			mine++
			b.note(func() { b.most = max(b.most, mine) })
			if b.deaf {
				continue
			}
			mine--
			ack := packets.NewControlPacket(packets.Puback).(*packets.PubackPacket)
			ack.MessageID = p.MessageID
			_ = ack.Write(conn)
		case *packets.PubackPacket:
			b.note(func() { b.acks = append(b.acks, p.MessageID) })
		case *packets.PingreqPacket:
			_ = packets.NewControlPacket(packets.Pingresp).Write(conn)
		}
	}
}

func (b *fakeBroker) count(n int) { b.note(func() { b.open += n }) }

func (b *fakeBroker) note(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// wantClosed waits until no connection is open.
func (b *fakeBroker) wantClosed(t testing.TB) {
	t.Helper()
	eventually(t, func() string {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.open > 0 {
			return "a connection stays open"
		}
		return ""
	})
}
