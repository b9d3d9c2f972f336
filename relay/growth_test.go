package relay_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/internal/crashtest"
	"github.com/parleykit/parley/internal/database/databasetest"
)

// processes is how many relays share one database in these tests.
const processes = 3

// listener is a subscription to all profiles that notes what it gets and when.
type listener struct {
	mu    sync.Mutex
	got   map[string]time.Time
	twice []string
	lost  error // the end of the connection
}

// listen opens a subscription on a connection of its own, to what is stored of
// one point of a test and to all that comes.
func listen(t *testing.T, url, point string) *listener {
	t.Helper()
	c := dialURL(t, url)
	c.send("REQ", "live", nostr.Filter{Tags: nostr.TagMap{"t": {point}}}, nostr.Filter{Kinds: []int{0}, LimitZero: true})
	l := &listener{got: map[string]time.Time{}}
	for r := c.next(); r.label != "EOSE"; r = c.next() {
		l.note(r)
	}
	go func() {
		for {
			_, data, err := c.conn.Read(context.Background()) // until the connection ends
			if err != nil {
				l.end(err)
				return
			}
			r, err := parseReply(data)
			if err != nil || r.label != "EVENT" {
				l.end(fmt.Errorf("got %v, %w", r, err))
				return
			}
			l.note(r)
		}
	}()
	return l
}

func (l *listener) note(r reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.event == nil {
		l.lost = fmt.Errorf("got %v before EOSE", r)
		return
	}
	if _, again := l.got[r.event.ID]; again {
		l.twice = append(l.twice, r.event.ID)
	}
	l.got[r.event.ID] = time.Now()
}

func (l *listener) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = err
}

// at is when the event came.
func (l *listener) at(id string) (when time.Time, came bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	when, came = l.got[id]
	return when, came
}

// wantAll waits for every event and demands that none came twice.
func (l *listener) wantAll(t *testing.T, ids []string) {
	t.Helper()
	for _, id := range ids {
		eventually(t, func() bool { _, came := l.at(id); return came })
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.twice) > 0 {
		t.Fatalf("%d events came twice, %s for one", len(l.twice), l.twice[0])
	}
	if l.lost != nil {
		t.Fatalf("the connection was lost: %v", l.lost)
	}
}

// process is one relay process with a publisher and a subscriber.
type process struct {
	child     *crashtest.Child
	url       string
	publisher *client
	reader    *listener
}

// startProcesses starts relays on the database, at the same moment.
func startProcesses(t *testing.T, address string, n int, point string) []*process {
	t.Helper()
	all := make([]*process, n)
	for i := range all {
		all[i] = &process{child: crashtest.Start(t, "TestCrashChild", address)}
	}
	for _, p := range all {
		p.url = p.child.Next(t)
		p.publisher, p.reader = dialURL(t, p.url), listen(t, p.url, point)
	}
	return all
}

func TestAnEventWrittenAtOneProcessReachesTheSubscribersOfAllOnce(t *testing.T) {
	const events = 50 // published at each process
	all := startProcesses(t, databasetest.NewPostgres(t), processes, "")
	answered := make([]map[string]time.Time, processes)
	var publishing sync.WaitGroup
	for i, p := range all {
		answered[i] = map[string]time.Time{}
		publishing.Go(func() {
			for n := range events {
				ev := newKey(t).note(nostr.Now(), fmt.Sprint(i, "-", n))
				if p.publisher.write(`["EVENT",`+ev.String()+`]`) != nil {
					t.Error("the connection was lost")
					return
				}
				if r, err := p.publisher.read(); err != nil || !r.ok {
					t.Errorf("got %v, %v, want OK", r, err)
				}
				answered[i][ev.ID] = time.Now()
			}
		})
	}
	publishing.Wait()
	var late []time.Duration // after the OK, at the other processes
	for i, sent := range answered {
		for j, p := range all {
			for id, at := range sent {
				p.reader.wantAll(t, []string{id})
				if came, _ := p.reader.at(id); i != j {
					late = append(late, max(0, came.Sub(at)))
				}
			}
		}
	}
	slices.Sort(late)
	median, worst := late[len(late)/2], late[len(late)-1]
	t.Logf("%d processes, %d events: at the others %v after the OK in the median, %v at the latest", processes, processes*events, median, worst)
	if worst >= patience {
		t.Errorf("an event came %v after its OK", worst)
	}
}

// load is publishing at several processes.
type load struct {
	t        *testing.T
	stopping atomic.Bool
	running  sync.WaitGroup

	mu       sync.Mutex
	accepted [][]string // by process
	ended    []bool     // the connection was lost, by process
}

// startLoad publishes at all processes until it is stopped or a connection is
// lost. An event that is answered with an error is sent again.
func startLoad(t *testing.T, all []*process, point string) *load {
	l := &load{t: t, accepted: make([][]string, len(all)), ended: make([]bool, len(all))}
	for i, p := range all {
		l.running.Go(func() {
			for !l.stopping.Load() {
				if !l.publish(i, p.publisher, newKey(t).event(0, nostr.Now(), "", nostr.Tags{{"t", point}})) {
					return
				}
			}
		})
	}
	return l
}

// publish sends one event until it is taken.
func (l *load) publish(i int, c *client, ev nostr.Event) (alive bool) {
	for !l.stopping.Load() {
		err := c.write(`["EVENT",` + ev.String() + `]`)
		var r reply
		if err == nil {
			r, err = c.read()
		}
		l.mu.Lock()
		switch {
		case err != nil:
			l.ended[i] = true
		case r.ok:
			l.accepted[i] = append(l.accepted[i], ev.ID)
		case len(r.text) < 7 || r.text[:7] != "error: ":
			l.t.Errorf("refused for good: %v", r)
		}
		l.mu.Unlock()
		if err != nil || r.ok {
			return err == nil
		}
	}
	return true
}

// count is how many events were answered OK at the processes but one.
func (l *load) count(without int) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.accepted {
		if i != without {
			n += len(l.accepted[i])
		}
	}
	return n
}

// stop ends it and returns what was answered OK. Only the connection of the
// victim may have been lost.
func (l *load) stop(victim int) (accepted []string) {
	l.t.Helper()
	l.stopping.Store(true)
	l.running.Wait()
	for i, lost := range l.ended {
		if lost && i != victim {
			l.t.Errorf("the connection to process %d was lost, and %d was killed", i, victim)
		}
	}
	return slices.Concat(l.accepted...)
}

// At each point a relay, or PostgreSQL, is killed while events are published at
// all relays. The others go on meanwhile; what was killed starts again.
func TestKilledRelaysAndDatabasesLoseNothingForTheOthers(t *testing.T) {
	cluster := databasetest.StartPostgres(t)
	address := cluster.URL("postgres")
	drill := crashtest.NewDrill(t)
	all := startProcesses(t, address, processes, "")
	var everything []string
	kills := [processes + 1]int{} // of each relay, and of the database
	for point := range drill.Points {
		victim := drill.IntN(processes + 1)
		kills[victim]++
		l := startLoad(t, all, fmt.Sprint(point))
		answers := 1 + drill.IntN(60)
		eventually(t, func() bool { return l.count(-1) >= answers })
		time.Sleep(drill.Moment()) // so that it falls anywhere in the work
		if victim == processes {
			cluster.Kill(t)
			cluster.Restart(t)
		} else {
			all[victim].child.Kill(t)
		}
		before := l.count(victim)
		eventually(t, func() bool { return l.count(victim) >= before+10 }) // the others go on
		accepted := l.stop(victim)
		if victim < processes {
			all[victim] = startProcesses(t, address, 1, fmt.Sprint(point))[0]
		}
		for _, p := range all { // the new one finds them stored
			p.reader.wantAll(t, accepted)
		}
		if everything = append(everything, accepted...); t.Failed() {
			t.Fatalf("at point %d, seed %d", point, drill.Seed)
		}
	}
	assertHolds(t, address, everything)
	t.Logf("%d points, relays killed %v times, PostgreSQL %d times, %d events answered OK, each came once", drill.Points, kills[:processes], kills[processes], len(everything))
}
