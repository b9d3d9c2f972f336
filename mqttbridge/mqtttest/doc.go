// Package mqtttest starts real brokers on free loopback ports for the tests of other
// packages: mosquitto, where it is installed, and the broker of package mqttbridge.
//
// Everything ends with its test. It is imported from tests only.
package mqtttest
