// Package mqttbridge carries envelopes over MQTT: a carrier for agents, a bridge
// between a broker and a relay, and a broker that needs no other program.
//
// Standards: MQTT 3.1.1 (OASIS, 2014) with QoS 1, sessions, retained messages and
// wills; kind 27235 (NIP-98) as a password. Not implemented: MQTT 5, QoS 2 (a
// repetition is told apart by its envelope id, so it buys nothing), MQTT over
// WebSocket.
//
// A token of the client library does not mean delivery when it reconnects by
// itself, so it never does here. What is published counts as taken once its PUBACK
// came on a connection that was not cut. What is received is acknowledged after the
// Handler has returned nil, which is after it is durable, and in the order in which it
// came.
//
// Trust: whoever may publish to a topic can put anything there, also for good
// (retained). Sizes are bounded before anything is read into memory, whatever a broker
// announces; everything else is left to the Handler, which verifies. Addresses of
// others are dialed under the strict egress rule, with a key that is thrown away, so
// that their brokers learn nothing about the sender.
//
// Concurrency: Carrier, Side and Broker are safe for concurrent use.
package mqttbridge
