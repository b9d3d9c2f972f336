package ntfyserver

import (
	"encoding/base64"
	"net/http"
	"path"
	"strings"
)

// Access is what one user may do with topics. A user "" is everybody.
type Access struct {
	User        string
	Topic       string // a name, or a pattern with *
	Read, Write bool
}

// userOf finds who asks: "" for nobody in particular. Wrong credentials are a
// refusal.
func (s *Server) userOf(r *http.Request) (string, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		if query := r.URL.Query().Get("auth"); query != "" {
			decoded, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(query, "="))
			if err != nil {
				return "", errUnauthorized
			}
			header = string(decoded)
		}
	}
	if header == "" {
		return "", nil
	}
	if token, ok := strings.CutPrefix(header, "Bearer "); ok {
		if user := s.opts.Tokens[token]; user != "" {
			return user, nil
		}
		return "", errUnauthorized
	}
	asked := http.Request{Header: http.Header{"Authorization": {header}}}
	name, password, ok := asked.BasicAuth()
	if want, known := s.opts.Users[name]; !ok || !known || want != password {
		return "", errUnauthorized
	}
	return name, nil
}

// authorize checks a request for topics.
func (s *Server) authorize(r *http.Request, topics []string, write bool) error {
	user, err := s.userOf(r)
	if err != nil {
		return err
	}
	for _, topic := range topics {
		if !s.allows(user, topic, write) {
			return errForbidden
		}
	}
	return nil
}

// allows looks for a rule about the user and topic, then for one about
// everybody.
func (s *Server) allows(user, topic string, write bool) bool {
	for _, who := range []string{user, ""} {
		for _, rule := range s.opts.Access {
			if match, _ := path.Match(rule.Topic, topic); match && rule.User == who {
				return write && rule.Write || !write && rule.Read
			}
		}
	}
	return !s.opts.DenyAll
}
