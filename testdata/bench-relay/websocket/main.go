// Command websocket measures two WebSocket libraries in the two things a relay does
// with them: it answers small messages, and it gives one message to many clients. It
// prints Markdown. Clients and server share one process, so that only the ratio says
// something.
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/lxzan/gws"
)

// library is one of the two: serve answers every message with itself, and push gives
// one to every open connection.
type library struct {
	name string
	make func() (handler http.Handler, push func([]byte))
}

const (
	repetitions = 5
	length      = time.Second
	size        = 1024
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "websocket:", err)
		os.Exit(1)
	}
}

func run() error {
	libraries := []library{{"coder/websocket v1.8.15", coderServer}, {"lxzan/gws v1.8.9", gwsServer}}
	fmt.Println("| | " + libraries[0].name + " | " + libraries[1].name + " | ratio |\n|---|---|---|---|")
	for _, what := range []struct {
		name    string
		measure func(library) (float64, error)
		unit    string
	}{
		{"answers, 64 connections", func(l library) (float64, error) { return answers(l, 64) }, "/s"},
		{"deliveries, 400 connections", func(l library) (float64, error) { return deliveries(l, 400) }, "/s"},
		{"deliveries, 2,000 connections", func(l library) (float64, error) { return deliveries(l, 2000) }, "/s"},
		{"memory of an idle connection", idle, " KiB"},
	} {
		var medians [2]float64
		for i, l := range libraries {
			var all []float64
			for range repetitions {
				n, err := what.measure(l)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", what.name, l.name, err)
				}
				all = append(all, n)
			}
			slices.Sort(all)
			medians[i] = all[len(all)/2]
		}
		fmt.Printf("| %s | %.0f%s | %.0f%s | %.2f |\n", what.name, medians[0], what.unit, medians[1], what.unit, medians[1]/medians[0])
	}
	return nil
}

func coderServer() (http.Handler, func([]byte)) {
	var mu sync.Mutex
	all := map[*websocket.Conn]bool{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		mu.Lock()
		all[conn] = true
		mu.Unlock()
		defer func() {
			mu.Lock()
			delete(all, conn)
			mu.Unlock()
			conn.CloseNow()
		}()
		for {
			kind, data, err := conn.Read(r.Context())
			if err != nil || conn.Write(r.Context(), kind, data) != nil {
				return
			}
		}
	})
	return handler, func(data []byte) {
		mu.Lock()
		defer mu.Unlock()
		for conn := range all {
			_ = conn.Write(context.Background(), websocket.MessageText, data)
		}
	}
}

// echo is gws's way to be told of events.
type echo struct {
	gws.BuiltinEventHandler
	mu  sync.Mutex
	all map[*gws.Conn]bool
}

func (e *echo) OnOpen(c *gws.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all[c] = true
}

func (e *echo) OnClose(c *gws.Conn, _ error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.all, c)
}

func (e *echo) OnMessage(c *gws.Conn, m *gws.Message) {
	defer m.Close()
	_ = c.WriteMessage(m.Opcode, m.Bytes())
}

func gwsServer() (http.Handler, func([]byte)) {
	e := &echo{all: map[*gws.Conn]bool{}}
	upgrader := gws.NewUpgrader(e, nil)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, err := upgrader.Upgrade(w, r); err == nil {
			go conn.ReadLoop()
		}
	})
	return handler, func(data []byte) {
		e.mu.Lock()
		defer e.mu.Unlock()
		for conn := range e.all {
			_ = conn.WriteMessage(gws.OpcodeText, data)
		}
	}
}

// dial opens n connections with one and the same client.
func dial(url string, n int) ([]*websocket.Conn, error) {
	conns := make([]*websocket.Conn, n)
	for i := range conns {
		conn, _, err := websocket.Dial(context.Background(), "ws"+strings.TrimPrefix(url, "http"), nil)
		if err != nil {
			return nil, err
		}
		conns[i] = conn
		// An answer shows that the server knows the connection.
		if err := conn.Write(context.Background(), websocket.MessageText, []byte("x")); err != nil {
			return nil, err
		}
		if _, _, err := conn.Read(context.Background()); err != nil {
			return nil, err
		}
	}
	return conns, nil
}

func with(l library, n int, measure func(conns []*websocket.Conn, push func([]byte)) float64) (float64, error) {
	handler, push := l.make()
	server := httptest.NewServer(handler)
	defer server.Close()
	conns, err := dial(server.URL, n)
	if err != nil {
		return 0, err
	}
	result := measure(conns, push)
	for _, conn := range conns {
		_ = conn.CloseNow()
	}
	return result, nil
}

func answers(l library, n int) (float64, error) {
	return with(l, n, func(conns []*websocket.Conn, _ func([]byte)) float64 {
		data := []byte(strings.Repeat("x", size))
		ctx, cancel := context.WithTimeout(context.Background(), length)
		defer cancel()
		counts := make([]int, n)
		began := time.Now()
		var group sync.WaitGroup
		for i, conn := range conns {
			group.Go(func() {
				for conn.Write(ctx, websocket.MessageText, data) == nil {
					if _, _, err := conn.Read(ctx); err != nil {
						return
					}
					counts[i]++
				}
			})
		}
		group.Wait()
		return perSecond(counts, began)
	})
}

func deliveries(l library, n int) (float64, error) {
	return with(l, n, func(conns []*websocket.Conn, push func([]byte)) float64 {
		data := []byte(strings.Repeat("x", size))
		counts := make([]int, n)
		rounds := make(chan struct{}, n)
		ctx, cancel := context.WithCancel(context.Background())
		var group sync.WaitGroup
		for i, conn := range conns {
			group.Go(func() {
				for {
					if _, _, err := conn.Read(ctx); err != nil {
						return
					}
					counts[i]++
					rounds <- struct{}{}
				}
			})
		}
		began := time.Now()
		for time.Since(began) < length {
			push(data)
			for range n {
				<-rounds
			}
		}
		rate := perSecond(counts, began)
		cancel()
		group.Wait()
		return rate
	})
}

func perSecond(counts []int, began time.Time) float64 {
	total := 0
	for _, n := range counts {
		total += n
	}
	return float64(total) / time.Since(began).Seconds()
}

// idle is what a connection takes of the heap and of stacks; the client's half is the
// same for both.
func idle(l library) (float64, error) {
	const n = 2000
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	return with(l, n, func([]*websocket.Conn, func([]byte)) float64 {
		runtime.GC()
		runtime.ReadMemStats(&after)
		used := float64(after.HeapInuse+after.StackInuse) - float64(before.HeapInuse+before.StackInuse)
		return used / n / 1024
	})
}
