// Package deploy embeds what an operator installs beside the programs: the
// configuration with every key, its default and its meaning.
//
// It trusts nothing and holds no state.
package deploy
