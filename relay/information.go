package relay

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/parleykit/parley/internal/httpserver"
)

// software is the "software" of the document, the address of this module.
const software = "https://github.com/parleykit/parley"

// supportedNIPs are those that are built and tested, nothing else.
var supportedNIPs = []int{1, 9, 11, 40, 42, 45, 50, 62, 70}

// supportedNIPs adds those that the rules switch on.
func (r *rules) supportedNIPs() []int {
	nips := slices.Clone(supportedNIPs)
	if _, most := r.works(); most > 0 {
		nips = append(nips, 13)
	}
	if r.kinds[kindWrap] {
		nips = append(nips, 59)
	}
	if r.kinds[kindWrap] && r.kinds[kindInboxList] {
		nips = append(nips, 17)
	}
	if r.kinds[kindRelayList] {
		nips = append(nips, 65)
	}
	if r.limits.Reconciliations > 0 {
		nips = append(nips, 77)
	}
	if len(r.admins) > 0 {
		nips = append(nips, 86, 98)
	}
	slices.Sort(nips)
	return nips
}

// document is the relay information document (NIP-11), without the members
// that would be empty.
type document struct {
	Name          string      `json:"name,omitempty"`
	Description   string      `json:"description,omitempty"`
	PubKey        string      `json:"pubkey,omitempty"`
	Contact       string      `json:"contact,omitempty"`
	SupportedNIPs []int       `json:"supported_nips"`
	Software      string      `json:"software"`
	Version       string      `json:"version,omitempty"`
	Limitation    limitation  `json:"limitation"`
	Retention     []retention `json:"retention"`
	PostingPolicy string      `json:"posting_policy,omitempty"`
	Icon          string      `json:"icon,omitempty"`
	Kinds         []int       `json:"kinds"`                // an addition: all kinds that are stored
	Negentropy    int         `json:"negentropy,omitempty"` // the protocol's version, where NIP-77 is on
}

// limitation is what NIP-11 calls so. There is no lower limit of created_at.
type limitation struct {
	MaxMessageLength    int   `json:"max_message_length"`
	MaxSubscriptions    int   `json:"max_subscriptions"`
	MaxLimit            int   `json:"max_limit"`
	DefaultLimit        int   `json:"default_limit"`
	MaxSubIDLength      int   `json:"max_subid_length"`
	MaxEventTags        int   `json:"max_event_tags"`
	CreatedAtUpperLimit int64 `json:"created_at_upper_limit"` // seconds from now
	MinPowDifficulty    int   `json:"min_pow_difficulty,omitempty"`
	AuthRequired        bool  `json:"auth_required"`
	PaymentRequired     bool  `json:"payment_required"`
	RestrictedWrites    bool  `json:"restricted_writes"`
}

// retention is one line of the document's retention list.
type retention struct {
	Kinds []int `json:"kinds"`
	Time  int64 `json:"time"` // seconds
}

func (l Limits) limitation() limitation {
	return limitation{
		MaxMessageLength:    l.FrameBytes,
		MaxSubscriptions:    l.Subscriptions,
		MaxLimit:            l.Results,
		DefaultLimit:        l.Results,
		MaxSubIDLength:      maxSubscriptionID,
		MaxEventTags:        l.EventTags,
		CreatedAtUpperLimit: int64(l.CreatedAhead.Seconds()),
		RestrictedWrites:    true,
	}
}

// serveInformation answers NIP-11. Any page may read it.
func (r *Relay) serveInformation(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Access-Control-Allow-Headers", "*, Authorization") // which the star leaves out
	w.Header().Set("Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS")
	if req.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	body, err := json.Marshal(r.document())
	if err != nil {
		httpserver.Problem(w, req, http.StatusInternalServerError, "internal", "The document cannot be written.")
		return
	}
	w.Header().Set("Content-Type", "application/nostr+json")
	w.Header().Set("Vary", "Accept")
	w.Write(body) //nolint:errcheck // The client is gone then.
}

// document is what holds at this moment.
func (r *Relay) document() document {
	rules := r.rules()
	doc := document{
		Name: rules.text("name", rules.Name), Description: rules.text("description", rules.Description),
		Icon: rules.text("icon", ""), PubKey: rules.PubKey, Contact: rules.Contact, PostingPolicy: rules.PostingPolicy,
		SupportedNIPs: rules.supportedNIPs(), Software: software, Version: r.opts.Version,
		Limitation: rules.limits.limitation(),
		Retention:  []retention{{Kinds: rules.open(), Time: int64(openRetention.Seconds())}},
		Kinds:      rules.taken(),
	}
	doc.Limitation.MinPowDifficulty, _ = rules.works()
	if slices.Contains(doc.SupportedNIPs, 77) {
		doc.Negentropy = 1
	}
	if rules.kinds[kindWrap] {
		doc.Retention = append(doc.Retention, retention{Kinds: []int{kindWrap}, Time: int64(rules.retention(kindWrap).Seconds())})
	}
	return doc
}

// text is what management set, or what the policy says.
func (r *rules) text(name, configured string) string {
	if one, set := r.rulings.texts[name]; set {
		return one.Text
	}
	return configured
}
