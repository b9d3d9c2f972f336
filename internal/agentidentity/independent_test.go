package agentidentity

import (
	"context"
	"crypto"
	"crypto/tls"
	"net/http"
	"testing"
	"time"

	httpsig "github.com/remitly-oss/httpsig-go"
)

// An independent implementation of RFC 9421, as far as it agrees with the RFC:
// it leaves the path out of @target-uri unless the path is escaped.

func TestSignaturesOfAnotherImplementationAreAccepted(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Now = time.Now })
	for algorithm, key := range map[httpsig.Algorithm]struct {
		id     string
		signer crypto.Signer
	}{
		httpsig.Algo_ED25519:           {"bot:alice-ed", b.ring.ed},
		httpsig.Algo_ECDSA_P256_SHA256: {"bot:alice-ec", b.ring.ec},
	} {
		req := post(t, benchOrigin, "body")
		req.Host = "venue.example"
		err := httpsig.Sign(req, httpsig.SigningProfile{
			Algorithm: algorithm, Digest: httpsig.DigestSHA512, Label: "other",
			Fields:   httpsig.Fields("content-digest", "content-type", "peac-purpose", "@method", "@authority", "@path", "@query"),
			Metadata: []httpsig.Metadata{httpsig.MetaKeyID, httpsig.MetaNonce, httpsig.MetaExpires, httpsig.MetaCreated, httpsig.MetaAlgorithm},
		}, httpsig.SigningKey{Key: key.signer, MetaKeyID: key.id})
		if err != nil {
			t.Fatal(err)
		}
		r := wire(t, req)
		r.RequestURI = "/rooms/a/b?to=alice&x=%20" // it signs the path without its escapes
		b.refused(t, string(algorithm), r, "")
		r = wire(t, req)
		r.RequestURI = "/rooms/a/c?to=alice&x=%20"
		b.refused(t, string(algorithm)+" of another path", r, "E_IDENTITY_SIG_INVALID")
	}
}

// oneKey answers every question of the other implementation.
type oneKey struct{ httpsig.KeySpec }

func (k oneKey) FetchByKeyID(context.Context, http.Header, string) (httpsig.KeySpecer, error) {
	return k.KeySpec, nil
}

func (k oneKey) Fetch(context.Context, http.Header, httpsig.MetadataProvider) (httpsig.KeySpecer, error) {
	return k.KeySpec, nil
}

func TestSignaturesAreAcceptedByAnotherImplementation(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Now = time.Now })
	for algorithm, key := range map[httpsig.Algorithm]struct {
		suffix string
		public crypto.PublicKey
	}{
		httpsig.Algo_ED25519:           {"-ed", b.ring.ed.Public()},
		httpsig.Algo_ECDSA_P256_SHA256: {"-ec", b.ring.ec.Public()},
	} {
		req := post(t, benchOrigin, "body")
		req.URL.RawQuery = ""
		client := b.ring.client(b.clock, key.suffix)
		client.Now = nil
		if err := client.Sign(req, MessageSignature); err != nil {
			t.Fatal(err)
		}
		r := wire(t, req)
		r.TLS = &tls.ConnectionState{}
		keys := oneKey{httpsig.KeySpec{Algo: algorithm, PubKey: key.public}}
		profile := httpsig.VerifyProfile{
			SignatureLabel: label, RequiredFields: httpsig.Fields("@method", "@target-uri", "content-digest", "peac-agent-identity"),
			RequiredMetadata: []httpsig.Metadata{httpsig.MetaCreated, httpsig.MetaExpires, httpsig.MetaNonce, httpsig.MetaKeyID},
		}
		if _, err := httpsig.Verify(r, keys, profile); err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
		r = wire(t, req)
		r.TLS, r.Method = &tls.ConnectionState{}, "PUT"
		if _, err := httpsig.Verify(r, keys, profile); err == nil {
			t.Errorf("%s: another method is accepted", algorithm)
		}
	}
}
