package venue

import (
	"sync"

	"github.com/parleykit/parley/protocol/agreement"
)

// maxCached bounds the rooms kept in memory. A room is at most about 2 MiB.
const maxCached = 32

// roomCache keeps open rooms between commands, since replaying a room checks
// every signature in it. A room is lent to one transaction at a time. It may
// run ahead of the database when that transaction is rolled back; take tells
// by the head of the chain, which no two different chains share.
type roomCache struct {
	mu    sync.Mutex
	rooms map[string]*agreement.Room
}

func newRoomCache() *roomCache { return &roomCache{rooms: make(map[string]*agreement.Room)} }

// take lends the room if it is there with exactly this head; it leaves the
// cache either way.
func (c *roomCache) take(id, head string) *agreement.Room {
	c.mu.Lock()
	defer c.mu.Unlock()
	room := c.rooms[id]
	delete(c.rooms, id)
	if room == nil || room.Head() != head {
		return nil
	}
	return room
}

// put gives a room back. When the cache is full any other makes room.
func (c *roomCache) put(room *agreement.Room) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := room.Agreement().AgreementID
	for other := range c.rooms {
		if len(c.rooms) < maxCached || c.rooms[id] != nil {
			break
		}
		delete(c.rooms, other)
	}
	c.rooms[id] = room
}
