package agentidentity_test

import (
	"crypto/ed25519"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/parleykit/parley/internal/agentidentity"
)

func Example() {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err)
	}
	keys, err := agentidentity.NewKeys(agentidentity.Key{
		ID: "key-1", Agent: "bot:alice", Algorithm: agentidentity.EdDSA, Public: public,
	})
	if err != nil {
		panic(err)
	}
	server := httptest.NewUnstartedServer(nil)
	verifier, err := agentidentity.New(agentidentity.Options{Origin: "http://" + server.Listener.Addr().String(), Directory: keys})
	if err != nil {
		panic(err)
	}
	server.Config.Handler = verifier.Require(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		identity, _ := agentidentity.FromContext(r.Context())
		fmt.Println(identity.Agent, identity.Method)
	}))
	server.Start()
	defer server.Close()

	alice := &agentidentity.Client{
		Issuer: "https://alice.example", KeyID: "key-1", Key: private,
		Evidence: agentidentity.Evidence{AgentID: "bot:alice", ControlType: agentidentity.UserDelegated},
	}
	req, err := http.NewRequest(http.MethodGet, server.URL+"/rooms?open", nil)
	if err != nil {
		panic(err)
	}
	if err := alice.Sign(req, agentidentity.MessageSignature); err != nil {
		panic(err)
	}
	for range 2 { // the second is a replay
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			panic(err)
		}
		_ = resp.Body.Close()
		fmt.Println(resp.StatusCode)
	}
	// Output:
	// bot:alice http-message-signature
	// 200
	// 401
}
