// Package config reads the one YAML file of a Parley server.
//
// Standards: YAML 1.2 through go.yaml.in/yaml/v4. Reading is strict: an unknown
// key, a wrong type, a key given twice or a second document is an error with
// its line. Every key has a default, in Default and in deploy/parley.yaml.
// Secrets are named by keys that end in _file and never stand in the file.
// Not implemented: environment variables, includes, reload.
//
// Trust: the file belongs to the operator and may name any path. It is read up
// to 1 MiB. Errors quote at most a few characters of a wrong value.
//
// Only programs in cmd read a configuration; services know their own Options.
// A Config is plain data: safe for concurrent reading, not for writing.
package config
