package mqttbridge

import "sync"

// ackOrder sends acknowledgements in the order in which their messages came, as MQTT
// 3.1.1 demands (section 4.6), while the messages are handled side by side.
type ackOrder struct {
	mu      sync.Mutex
	waiting []*pendingAck
}

type pendingAck struct {
	send func()
	due  bool
}

// next takes the acknowledgement of the message that came last. What it returns sends
// it, once those before it were sent.
func (o *ackOrder) next(send func()) func() {
	ack := &pendingAck{send: send}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting = append(o.waiting, ack)
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		ack.due = true
		for len(o.waiting) > 0 && o.waiting[0].due {
			o.waiting[0].send()
			o.waiting = o.waiting[1:]
		}
	}
}
