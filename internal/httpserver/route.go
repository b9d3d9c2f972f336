package httpserver

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Route is one line of the table in docs/http.md: what a service answers.
type Route struct {
	// Method is the HTTP method; "" is any. GET answers HEAD as well.
	Method string
	// Pattern is a path in the form of net/http.ServeMux without method and
	// host: "/relay/" with everything below, "/{$}" for the root alone.
	Pattern string
	// Owner names the service, a word of a-z; it is a metrics label.
	Owner string
	// Summary says in one line what is answered.
	Summary string
	// Match tells routes of one pattern and method apart; nil takes every
	// request. Routes are asked in the order they were given to Handle.
	Match func(*http.Request) bool
	// MaxBody is the largest request body in bytes; 0 means the server's.
	MaxBody int64
	// Handler answers.
	Handler http.Handler
}

// ErrRoute means a route that cannot be added.
var ErrRoute = errors.New("httpserver: bad route")

var ownerPattern = regexp.MustCompile(`^[a-z][a-z0-9]*$`)

func (r Route) check() error {
	switch {
	case !strings.HasPrefix(r.Pattern, "/"):
		return fmt.Errorf("%w: pattern %q must begin with a slash", ErrRoute, r.Pattern)
	case !ownerPattern.MatchString(r.Owner):
		return fmt.Errorf("%w: %s: owner %q is not a word of a-z", ErrRoute, r.Pattern, r.Owner)
	case r.Summary == "" || strings.ContainsAny(r.Summary, "\n|"):
		return fmt.Errorf("%w: %s: needs a summary of one line", ErrRoute, r.Pattern)
	case r.Handler == nil:
		return fmt.Errorf("%w: %s: no handler", ErrRoute, r.Pattern)
	case r.Method != strings.ToUpper(r.Method):
		return fmt.Errorf("%w: %s: method %q", ErrRoute, r.Pattern, r.Method)
	}
	return nil
}

// answers reports whether the route takes requests of this method.
func (r Route) answers(method string) bool {
	return r.Method == "" || r.Method == method || r.Method == http.MethodGet && method == http.MethodHead
}

// Handle adds routes. ErrRoute when one is incomplete, can never be reached,
// or clashes with another; the table is then as before the offending route.
func (s *Server) Handle(routes ...Route) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return fmt.Errorf("%w: the server runs already", ErrRoute)
	}
	for _, route := range routes {
		if err := s.add(route); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) add(route Route) error {
	if err := route.check(); err != nil {
		return err
	}
	group := s.groups[route.Pattern]
	if group == nil {
		group = &routeGroup{server: s}
		if err := s.register(route.Pattern, group); err != nil {
			return err
		}
		s.groups[route.Pattern] = group
	}
	for _, other := range group.routes {
		if other.Match == nil && (other.Method == "" || other.Method == route.Method) {
			return fmt.Errorf("%w: %s %s of %s hides that of %s", ErrRoute, route.Method, route.Pattern, other.Owner, route.Owner)
		}
	}
	group.routes = append(group.routes, route)
	s.metrics.initialize(route.Owner)
	return nil
}

// register turns ServeMux's panic on clashing patterns into an error.
func (s *Server) register(pattern string, handler http.Handler) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %s: %v", ErrRoute, pattern, value)
		}
	}()
	s.mux.Handle(pattern, handler)
	return nil
}

// Routes is every route, sorted by pattern, then in the order of Handle.
func (s *Server) Routes() []Route {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Route
	for _, group := range s.groups {
		all = append(all, group.routes...)
	}
	slices.SortStableFunc(all, func(a, b Route) int { return cmp.Compare(a.Pattern, b.Pattern) })
	return all
}

// Table writes routes as the Markdown table of docs/http.md, in the order
// given.
func Table(routes []Route) string {
	var table strings.Builder
	table.WriteString("| path | method | owner | what it answers |\n|---|---|---|---|\n")
	for _, route := range routes {
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n",
			strings.ReplaceAll(route.Pattern, "{$}", ""), cmp.Or(route.Method, "any"), route.Owner, route.Summary)
	}
	return table.String()
}

// routeGroup answers the requests of one pattern.
type routeGroup struct {
	server *Server
	routes []Route
}

func (g *routeGroup) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, route := range g.routes {
		if route.Match != nil && !route.Match(r) {
			continue
		}
		if !route.answers(r.Method) {
			allowed = append(allowed, route.Method)
			continue
		}
		if own, ok := w.(*response); ok {
			own.owner = route.Owner
		}
		r.Body = http.MaxBytesReader(w, r.Body, cmp.Or(route.MaxBody, g.server.opts.MaxBody))
		route.Handler.ServeHTTP(w, r)
		return
	}
	if len(allowed) == 0 {
		Problem(w, r, http.StatusNotFound, "not_found", "Nothing is served here.")
		return
	}
	slices.Sort(allowed)
	w.Header().Set("Allow", strings.Join(slices.Compact(allowed), ", "))
	Problem(w, r, http.StatusMethodNotAllowed, "method_not_allowed", "This path does not take the method.")
}
