package wellknown

import (
	"net/url"
	"regexp"
)

// Limits of Document.Carriers.
const (
	MaxCarriers       = 8
	maxCarrierAddress = 512 // bytes
)

// Carrier is a way beside the relay to reach who uses the server. A client
// leaves a scheme alone that it does not know.
type Carrier struct {
	Scheme string `json:"scheme"` // such as "https", "mqtt" or "ntfy"
	// Address is the URL that envelopes are posted to (https), the broker
	// without a topic (mqtt), or the server without a topic (ntfy).
	Address string `json:"address"`
}

var carrierScheme = regexp.MustCompile(`^[a-z][a-z0-9-]{0,15}$`)

// carrierURLs are the URL schemes of the carriers known here, the second one for
// closed networks and tests.
var carrierURLs = map[string][2]string{"https": {"https", "http"}, "mqtt": {"mqtts", "mqtt"}, "ntfy": {"https", "http"}}

// areCarriers reports whether a list is as a document may have it: not empty,
// since an empty one is left out.
func areCarriers(list []Carrier) bool {
	if len(list) == 0 || len(list) > MaxCarriers {
		return false
	}
	for _, c := range list {
		if !carrierScheme.MatchString(c.Scheme) || len(c.Address) > maxCarrierAddress || !isText(c.Address) {
			return false
		}
		if schemes, known := carrierURLs[c.Scheme]; known && !isCarrierURL(c, schemes) {
			return false
		}
	}
	return true
}

// isCarrierURL reports whether an address has a host, of the two alone a path,
// and no secret.
func isCarrierURL(c Carrier, schemes [2]string) bool {
	u, err := url.Parse(c.Address)
	return err == nil && u.Hostname() != "" && u.User == nil && u.RawQuery == "" && !u.ForceQuery && u.Fragment == "" &&
		(u.Scheme == schemes[0] || u.Scheme == schemes[1]) && (c.Scheme == "https" || u.Path == "")
}
