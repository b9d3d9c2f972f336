package mqttbridge

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/storage"
	"github.com/mochi-mqtt/server/v2/hooks/storage/bolt"
	"github.com/mochi-mqtt/server/v2/packets"
	"go.etcd.io/bbolt"
)

// persistence keeps sessions, what waits for them, and cards in a file. Each change
// is synced before the next step.
type persistence struct{ *bolt.Hook }

func newPersistence() persistence { return persistence{new(bolt.Hook)} }

func storeOptions(path string) *bolt.Options {
	return &bolt.Options{Path: path, Options: &bbolt.Options{Timeout: 5 * time.Second}}
}

// OnSessionEstablished implements mqtt.Hook. Sessions that end with their connection
// are not worth a sync.
func (p persistence) OnSessionEstablished(cl *mqtt.Client, pk packets.Packet) {
	if !pk.Connect.Clean {
		p.Hook.OnSessionEstablished(cl, pk)
	}
}

// OnDisconnect implements mqtt.Hook.
func (p persistence) OnDisconnect(cl *mqtt.Client, err error, expire bool) {
	if !cl.Properties.Clean {
		p.Hook.OnDisconnect(cl, err, expire)
	}
}

// OnQosPublish implements mqtt.Hook. The server also notes acknowledgements that it is
// about to write, and what a session without a future has not acknowledged.
func (p persistence) OnQosPublish(cl *mqtt.Client, pk packets.Packet, sent int64, resends int) {
	if pk.FixedHeader.Type == packets.Publish && !cl.Properties.Clean {
		p.Hook.OnQosPublish(cl, pk, sent, resends)
	}
}

// OnQosComplete implements mqtt.Hook.
func (p persistence) OnQosComplete(cl *mqtt.Client, pk packets.Packet) {
	if !cl.Properties.Clean {
		p.Hook.OnQosComplete(cl, pk)
	}
}

// StoredInflightMessages implements mqtt.Hook. The hook below writes the packet's id
// into the row's key alone, and reads it as 0, which is no id: without it everything
// that waited would be one message that no client takes.
func (p persistence) StoredInflightMessages() ([]storage.Message, error) {
	all, err := p.Hook.StoredInflightMessages()
	if err != nil {
		return nil, err
	}
	for i := range all {
		id, err := strconv.ParseUint(all[i].ID[strings.LastIndexByte(all[i].ID, ':')+1:], 10, 16)
		if err != nil {
			return nil, fmt.Errorf("mqttbridge: a stored message has the key %.100q: %w", all[i].ID, err)
		}
		all[i].PacketID = uint16(id)
	}
	return all, nil
}
