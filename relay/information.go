package relay

import (
	"encoding/json"
	"net/http"

	"github.com/parleykit/parley/internal/httpserver"
)

// software is the "software" of the document, the address of this module.
const software = "https://github.com/parleykit/parley"

// supportedNIPs are those that are built and tested, nothing else.
var supportedNIPs = []int{1, 9, 11, 40, 42, 70}

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
	Kinds         []int       `json:"kinds"` // an addition: all kinds that are stored
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
	w.Header().Set("Access-Control-Allow-Headers", "*")
	w.Header().Set("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS")
	if req.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	doc := document{
		Name: r.opts.Name, Description: r.opts.Description, PubKey: r.opts.PubKey, Contact: r.opts.Contact,
		SupportedNIPs: supportedNIPs, Software: software, Version: r.opts.Version,
		Limitation: r.opts.Limits.limitation(),
		Retention: []retention{
			{Kinds: []int{kindWrap}, Time: int64(r.retention(kindWrap).Seconds())},
			{Kinds: openKinds, Time: int64(openRetention.Seconds())},
		},
		Kinds: []int{kindProfile, kindDeletion, kindWrap, kindRelayList, kindCard},
	}
	body, err := json.Marshal(doc)
	if err != nil {
		httpserver.Problem(w, req, http.StatusInternalServerError, "internal", "The document cannot be written.")
		return
	}
	w.Header().Set("Content-Type", "application/nostr+json")
	w.Header().Set("Vary", "Accept")
	w.Write(body) //nolint:errcheck // The client is gone then.
}
