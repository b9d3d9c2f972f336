package mqttbridge_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/mqttbridge"
	"github.com/parleykit/parley/mqttbridge/mqtttest"
)

// authority issues certificates for a test.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.issue("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue writes name.pem and name.key.
func (a *authority) issue(name string, template, parent *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	signer := a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".pem", "CERTIFICATE", der)
	a.write(name+".key", "PRIVATE KEY", secret)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func (a *authority) write(name, kind string, data []byte) {
	if err := os.WriteFile(a.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// Encrypted, with an own authority: two agents talk; who does not trust it, or has no
// client certificate where one is asked for, does not.
func TestTLS(t *testing.T) {
	ca := newAuthority(t)
	ca.issue("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, ca.cert)
	ca.issue("client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, ca.cert)
	for name, lines := range map[string][]string{"server certificate": nil, "client certificate": {"require_certificate true"}} {
		t.Run(name, func(t *testing.T) {
			broker := mqtttest.StartMosquitto(t, append(lines, "cafile "+ca.file("ca.pem"), "certfile "+ca.file("server.pem"), "keyfile "+ca.file("server.key"))...)
			url := "mqtts://" + broker.Addr
			trusted := func(cert, key string) func(*mqttbridge.Options) {
				return func(o *mqttbridge.Options) {
					config, err := mqttbridge.LoadTLS(ca.file("ca.pem"), cert, key)
					if err != nil {
						t.Fatal(err)
					}
					o.Credentials = map[string]mqttbridge.Credential{broker.Addr: {TLS: config}}
					for i := range o.Inboxes {
						o.Inboxes[i].Credential.TLS = config
					}
				}
			}
			w := newWorld(t)
			full := trusted(ca.file("client.pem"), ca.file("client.key"))
			alice, bob := w.add(url, full), w.add(url, full)
			befriend(t, alice, bob)
			wantAll(t, alice, bob, []string{alice.send(bob, "", 0, "hello")})
			strangers := map[string]*mqttbridge.Carrier{"without the authority": newCarrier(t, newKey(t))}
			if lines != nil {
				strangers["without a client certificate"] = newCarrier(t, newKey(t), trusted("", ""))
			}
			for who, c := range strangers {
				if err := c.Send(t.Context(), inboxAt(url, newKey(t)), []byte("{}")); !errors.Is(err, carrier.ErrTransient) {
					t.Errorf("%s: Send = %v", who, err)
				}
			}
		})
	}
}

func TestUserAndPassword(t *testing.T) {
	tool, err := exec.LookPath("mosquitto_passwd")
	if err != nil {
		t.Skip("mosquitto_passwd is not installed (Debian package mosquitto)")
	}
	dir := t.TempDir()
	users, password := filepath.Join(dir, "users"), filepath.Join(dir, "password")
	if out, err := exec.Command(tool, "-b", "-c", users, "parley", "s3cret").CombinedOutput(); err != nil {
		t.Fatalf("mosquitto_passwd: %v %s", err, out)
	}
	if err := os.WriteFile(password, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broker := mqtttest.StartMosquitto(t, "allow_anonymous false", "password_file "+users)
	known := func(o *mqttbridge.Options) {
		for i := range o.Inboxes {
			o.Inboxes[i].Credential = mqttbridge.Credential{Username: "parley", PasswordFile: password}
		}
	}
	w := newWorld(t)
	alice, bob := w.add(broker.URL, known), w.add(broker.URL, known)
	befriend(t, alice, bob)
	wantAll(t, alice, bob, []string{alice.send(bob, "", 0, "hello")})
	stranger := newCarrier(t, newKey(t))
	if err := stranger.Send(t.Context(), inboxAt(broker.URL, newKey(t)), []byte("{}")); !errors.Is(err, carrier.ErrPermanent) {
		t.Errorf("without a password: Send = %v", err)
	}
	// The file is read for each connection.
	if err := os.WriteFile(password, []byte("wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	key := newKey(t)
	late := newCarrier(t, key, listening(key, broker.URL), known)
	err = late.Send(t.Context(), inboxAt(broker.URL, key), []byte("{}"))
	if !errors.Is(err, carrier.ErrPermanent) || strings.Contains(err.Error(), "wrong") {
		t.Errorf("with a wrong password: Send = %v", err)
	}
}
