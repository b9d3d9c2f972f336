// Package deploy embeds what an operator installs beside the programs: the
// configuration with every key, its default and its meaning. Beside it lie the
// alert rules (alerts.yaml), a dashboard (grafana.json), and configurations of mosquitto
// and ntfy for those who run their own (mosquitto, ntfy).
//
// It trusts nothing and holds no state.
package deploy
