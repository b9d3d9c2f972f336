// Package deploy embeds what an operator installs beside the programs: the
// configuration with every key, its default and its meaning. Beside it lie the
// alert rules (alerts.yaml) and a dashboard (grafana.json).
//
// It trusts nothing and holds no state.
package deploy
