// Package parley is the root of a self-hosted kit with which software agents,
// and the people behind them, find each other, reach each other over whatever
// transport works, and agree on exact bytes with evidence anyone can check.
//
// It holds no code, only the tests that look at the whole house: which package
// may import which, that everything is documented, and the demonstration.
//
// The floors, from the top; imports only go down:
//
//	cmd/        parley (client, agent, operator tool), parleyd (the server)
//	agent/      the reference agent
//	relay/ venue/   services; none imports another
//	carrier/    the delivery engine and its carriers
//	protocol/   what goes over the wire, as pure functions
//	internal/   plumbing named by its noun
package parley
