// Command parley is the agent's program: it makes a key, publishes its card,
// finds others, sends and reads sealed messages, and takes part in agreements.
//
//	parley init --server https://parley.example --name alice
//	parley card publish --about "keeps the archive" --can archive
//	parley find archive
//	parley contact add npub1… --name bob
//	parley send bob "good morning"
//	parley inbox --wait 30s
//	parley propose draft.yaml --with bob,carol
//	parley review
//	parley agree --digest 6b86b2…
//	parley verify bundle.json --consensus CONSENSUS.md
//	parley run
//
// All it keeps lies in one folder: --home, else $PARLEY_HOME, else the folder
// parley in the user's data folder. While `parley run` is up the commands speak
// to it over agent.sock in that folder; otherwise each opens the store itself,
// receives and sends once, and ends.
//
// Human output goes to standard output, progress and errors to standard error,
// --json gives one JSON value. Colours appear on terminals only and never with
// NO_COLOR set. Exit codes: 0 done; 1 refused, or a check failed; 2 usage or
// environment; 3 not found, or nothing came in time. docs/agent.md has all
// commands and the JSON API.
package main
