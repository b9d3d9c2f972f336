package ntfyserver

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// maxVisitors bounds the addresses that are remembered.
const maxVisitors = 10_000

// visitor is one address with its bucket of requests.
type visitor struct {
	tokens        float64
	filled        time.Time
	subscriptions int
}

// visitors are the limits of everybody.
type visitors struct {
	opts Options
	mu   sync.Mutex
	all  map[string]*visitor
}

func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// of finds a visitor; the caller holds mu.
func (v *visitors) of(r *http.Request) *visitor {
	key := addressOf(r)
	known := v.all[key]
	if known == nil {
		if len(v.all) >= maxVisitors {
			for other, one := range v.all {
				if one.subscriptions == 0 {
					delete(v.all, other)
					break
				}
			}
		}
		known = &visitor{tokens: float64(v.opts.Burst), filled: v.opts.Now()}
		v.all[key] = known
	}
	return known
}

// request takes one token of the sender of a request.
func (v *visitors) request(r *http.Request) bool {
	if v.opts.Burst < 0 {
		return true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	one, now := v.of(r), v.opts.Now()
	if passed := now.Sub(one.filled); passed > 0 {
		one.tokens = min(float64(v.opts.Burst), one.tokens+passed.Seconds()/v.opts.Refill.Seconds())
	}
	one.filled = now
	if one.tokens < 1 {
		return false
	}
	one.tokens--
	return true
}

// subscribe takes one subscription; leave gives it back.
func (v *visitors) subscribe(r *http.Request) (leave func(), ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	one := v.of(r)
	if one.subscriptions >= v.opts.Subscriptions {
		return nil, false
	}
	one.subscriptions++
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		one.subscriptions--
	}, true
}
