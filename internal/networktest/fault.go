package networktest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/parleykit/parley/internal/drilltest"
)

// Fault is one kind of trouble. Heal of the proxy ends it.
type Fault struct {
	Name  string
	Begin func(*Proxy)
}

// Faults are all kinds of trouble.
func Faults() []Fault {
	return []Fault{
		{"reset", (*Proxy).Reset},
		{"refuse", func(p *Proxy) { p.Refuse(true); p.Reset() }},
		{"stall", func(p *Proxy) { p.Stall(true) }},
		{"stall and reset", func(p *Proxy) { p.Stall(true); p.Reset() }},
		{"latency", func(p *Proxy) { p.Delay(20*time.Millisecond, 0) }},
		{"trickle", func(p *Proxy) { p.Delay(time.Millisecond, 97) }},
		{"half-close to the client", (*Proxy).HalfClose},
		{"half-close to the server", (*Proxy).HalfCloseServer},
	}
}

// Point is a moment of a test's traffic at which a fault begins.
type Point struct {
	Number int
	Fault  Fault
	Rand   *rand.Rand // seeded by Number: how much goes before, during and after
}

// String names the point in messages of tests.
func (p Point) String() string { return fmt.Sprintf("point %d, %s", p.Number, p.Fault.Name) }

// Points are the drilltest.Points moments one test visits, the same ones each
// time. The kinds of trouble take turns.
func Points() []Point {
	faults := Faults()
	points := make([]Point, drilltest.Points())
	for i := range points {
		points[i] = Point{Number: i, Fault: faults[i%len(faults)], Rand: rand.New(rand.NewPCG(0, uint64(i)))}
	}
	return points
}
