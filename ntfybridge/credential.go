package ntfybridge

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// Credential logs in to one server: with an access token, or with a user and
// password. Secrets are named by their files, which are read for each request.
type Credential struct {
	TokenFile              string
	Username, PasswordFile string
}

// maxSecret bounds the file of a secret, in bytes.
const maxSecret = 4096

var errCredential = errors.New("ntfybridge: unusable credential")

// authorize adds the credential to a request. Errors name the file's fault,
// never its content.
func (c Credential) authorize(r *http.Request) error {
	switch {
	case c.TokenFile != "":
		token, err := readSecret(c.TokenFile)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+token)
	case c.Username != "":
		password, err := readSecret(c.PasswordFile)
		if err != nil {
			return err
		}
		r.SetBasicAuth(c.Username, password)
	}
	return nil
}

func readSecret(name string) (string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errCredential, err)
	}
	secret := strings.TrimSpace(string(data))
	if secret == "" || len(data) > maxSecret || strings.ContainsFunc(secret, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fmt.Errorf("%w: not one line of text in its file", errCredential)
	}
	return secret, nil
}
