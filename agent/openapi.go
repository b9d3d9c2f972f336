package agent

import (
	_ "embed"
	"net/http"
	"slices"
)

// openAPI is made from the operations and their types by the tests (go test
// ./agent -run OpenAPI -update), which also hold every answer against it.
//
//go:embed openapi.json
var openAPI []byte

// OpenAPI is the OpenAPI 3.1 document of the JSON API on the socket.
func OpenAPI() []byte { return slices.Clone(openAPI) }

func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(openAPI) // the reader is gone; nothing is left to tell
}
