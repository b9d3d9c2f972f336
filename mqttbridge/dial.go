package mqttbridge

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/parleykit/parley/carrier"
	"github.com/parleykit/parley/internal/egress"
)

// Credential is how to log in to a broker. The zero value logs in by key.
type Credential struct {
	Username     string
	PasswordFile string // one line; read for each connection, so that it may change
	// TLS adds own authorities or a client certificate; nil trusts what the system does.
	TLS *tls.Config
}

// maxPassword bounds a password file, in bytes.
const maxPassword = 4096

func (c Credential) password() (string, error) {
	if c.PasswordFile == "" {
		return "", nil
	}
	info, err := os.Stat(c.PasswordFile)
	if err != nil || info.Size() > maxPassword {
		return "", errors.New("mqttbridge: the password file cannot be read, or is too large")
	}
	data, err := os.ReadFile(c.PasswordFile)
	if err != nil {
		return "", errors.New("mqttbridge: the password file cannot be read")
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

// config is the TLS of one connection to a broker, nil without.
func (c Credential) config(broker string) *tls.Config {
	if !strings.HasPrefix(broker, "mqtts://") {
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS != nil {
		config = c.TLS.Clone()
		config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(hostPort(broker))
	}
	return config
}

// LoadTLS makes the TLS part of a Credential from PEM files: authorities that are
// trusted in place of the system's, and a client certificate; each may be empty.
func LoadTLS(caFile, certFile, keyFile string) (*tls.Config, error) {
	if caFile == "" && certFile == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		data, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("mqttbridge: reading authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("mqttbridge: %s holds no certificate", caFile)
		}
	}
	if certFile != "" {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("mqttbridge: reading the client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// secure makes the TLS handshake.
func secure(ctx context.Context, raw net.Conn, config *tls.Config) (net.Conn, error) {
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return conn, nil
}

// dialError sorts why nobody answered: an address that must not be reached stays
// so, everything else may pass.
func dialError(err error) error {
	if errors.Is(err, egress.ErrRefusedAddress) || errors.Is(err, egress.ErrAddress) {
		return fmt.Errorf("%w: mqtt: %w", carrier.ErrPermanent, err)
	}
	return fmt.Errorf("%w: mqtt: connecting: %w", carrier.ErrTransient, err)
}
