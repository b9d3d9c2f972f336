package load_test

import (
	"fmt"
	"os"
	"os/signal"
	"testing"

	"github.com/parleykit/parley/relay"
	"github.com/parleykit/parley/relay/relaytest"
)

// folderUnderLoad names the folder of the relay that TestServe runs.
const folderUnderLoad = "PARLEY_LOAD_RELAY"

// TestServe is no test: with a folder in the environment it is the relay under
// load, in a process of its own, without limits on rates and connections. It
// says "ready URL" and ends with its standard input or an interrupt.
func TestServe(t *testing.T) {
	dir := os.Getenv(folderUnderLoad)
	if dir == "" {
		t.Skip("the relay under load is started by make bench-relay")
	}
	s := relaytest.Start(t, relay.Options{Dir: dir, Limits: relay.Limits{Connections: -1, ConnectionsPerAddress: -1}})
	fmt.Println("ready " + s.URL)
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	<-interrupted
}
