package httpserver

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificateAge is how often the certificate's file is looked at.
const certificateAge = time.Minute

// certificate serves a key pair from two files and reads them again when the
// certificate's file has changed, as ACME clients do. A pair that cannot be
// read keeps the old one.
type certificate struct {
	certFile, keyFile string
	now               func() time.Time
	logger            *slog.Logger

	mu       sync.Mutex
	current  *tls.Certificate
	modified time.Time
	checked  time.Time
}

// load reads the pair for the first time; any error is final.
func (c *certificate) load() error {
	info, err := os.Stat(c.certFile)
	if err != nil {
		return fmt.Errorf("loading certificate: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("loading certificate: %w", err)
	}
	c.current, c.modified, c.checked = &pair, info.ModTime(), c.now()
	return nil
}

// get is for tls.Config.GetCertificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now().Sub(c.checked) < certificateAge {
		return c.current, nil
	}
	c.checked = c.now()
	if info, err := os.Stat(c.certFile); err == nil && info.ModTime().Equal(c.modified) {
		return c.current, nil
	}
	if err := c.load(); err != nil {
		c.logger.Warn("keeping the old certificate", "err", err)
	}
	return c.current, nil
}

// TLSConfig is what the public listener shows, for other listeners of the same
// server; nil for plain HTTP. A renewed certificate is picked up.
func (s *Server) TLSConfig() *tls.Config {
	if s.cert == nil {
		return nil
	}
	return s.cert.config()
}

func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}
}
