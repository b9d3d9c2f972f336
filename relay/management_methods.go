package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/parleykit/parley/protocol/canonical"
)

// method is one method of the management.
type method struct {
	reads bool // it changes nothing
	run   func(*act) (any, error)
}

// act is one running call.
type act struct {
	relay   *Relay
	ctx     context.Context
	admin   string
	params  []json.RawMessage
	subject string // what it is about, for the log
}

// callRefusal is an error whose text the administrator sees.
type callRefusal string

func (e callRefusal) Error() string { return string(e) }

// managementMethods are the methods that exist here (NIP-86). It is a function
// since one of them lists them.
func managementMethods() map[string]method {
	return map[string]method{
		"supportedmethods": {true, listMethods},

		"banpubkey":          {false, (*act).banKey},
		"unbanpubkey":        {false, withdrawKey(BannedKeys)},
		"listbannedpubkeys":  {true, listOf(BannedKeys, "pubkey")},
		"allowpubkey":        {false, (*act).allowKey},
		"unallowpubkey":      {false, withdrawKey(AllowedKeys)},
		"listallowedpubkeys": {true, listOf(AllowedKeys, "pubkey")},

		"banevent":         {false, (*act).banEvent},
		"allowevent":       {false, (*act).unbanEvent},
		"unbanevent":       {false, (*act).unbanEvent},
		"listbannedevents": {true, listOf(BannedEvents, "id")},

		"allowkind":        {false, (*act).allowKind},
		"disallowkind":     {false, (*act).disallowKind},
		"listallowedkinds": {true, func(a *act) (any, error) { return a.relay.rules().taken(), nil }},

		"blockip":        {false, (*act).blockAddress},
		"unblockip":      {false, (*act).unblockAddress},
		"listblockedips": {true, listOf(BlockedAddresses, "ip")},

		"changerelayname":        {false, changeText("name", 100)},
		"changerelaydescription": {false, changeText("description", maxRuled)},
		"changerelayicon":        {false, changeText("icon", maxRuled)},
	}
}

// listMethods lists all methods, this one included.
func listMethods(*act) (any, error) {
	return slices.Sorted(maps.Keys(managementMethods())), nil
}

// text is the string at position i of the params; one that may be left out is
// empty then.
func (a *act) text(i, limit int, optional bool) (string, error) {
	if i >= len(a.params) || string(a.params[i]) == "null" {
		if optional {
			return "", nil
		}
		return "", callRefusal(fmt.Sprintf("param %d is missing", i+1))
	}
	var s string
	if err := json.Unmarshal(a.params[i], &s); err != nil || !utf8.ValidString(s) {
		return "", callRefusal(fmt.Sprintf("param %d is not text", i+1))
	}
	if len(s) > limit {
		return "", callRefusal(fmt.Sprintf("param %d is longer than %d bytes", i+1, limit))
	}
	return s, nil
}

// hex is the first param, 64 lowercase hex digits.
func (a *act) hex() (string, error) {
	s, err := a.text(0, 64, false)
	if err == nil && !canonical.IsHex(s, 32) {
		err = callRefusal("param 1 is not 64 lowercase hex digits")
	}
	a.subject = s
	return s, err
}

// kind is the first param, a number.
func (a *act) kind() (int, error) {
	var kind int
	if len(a.params) == 0 || json.Unmarshal(a.params[0], &kind) != nil {
		return 0, callRefusal("param 1 is not the number of a kind")
	}
	a.subject = strconv.Itoa(kind)
	if err := checkKind(kind); err != nil {
		return 0, callRefusal(err.Error())
	}
	return kind, nil
}

// address is the first param; limits are counted by networks, and so are
// blocks.
func (a *act) address() (netip.Addr, error) {
	s, err := a.text(0, 64, false)
	if err != nil {
		return netip.Addr{}, err
	}
	address, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, callRefusal("param 1 is not an address")
	}
	a.subject = network(address).String()
	return network(address), nil
}

// ruling is a ruling of this administrator about the subject; the reason is the
// second param.
func (a *act) ruling(list RulingList) (Ruling, error) {
	reason, err := a.text(1, maxRuled, true)
	return Ruling{List: list, Subject: a.subject, Text: reason, Admin: a.admin, At: a.relay.opts.Now().Unix()}, err
}

// record makes the ruling hold in place of those that it takes back.
func (a *act) record(list RulingList, withdraw ...RulingList) (any, error) {
	one, err := a.ruling(list)
	if err != nil {
		return nil, err
	}
	return a.rule([]Ruling{one}, withdraw...)
}

// rule records rulings and withdraws those of the subject in other lists.
func (a *act) rule(record []Ruling, withdraw ...RulingList) (any, error) {
	var taken []Ruling
	for _, list := range withdraw {
		taken = append(taken, Ruling{List: list, Subject: a.subject})
	}
	err := a.relay.rule(a.ctx, record, taken)
	if errors.Is(err, errFull) {
		return nil, callRefusal(fmt.Sprintf("the list holds %d already", maxRulings))
	}
	return true, err
}

func (a *act) banKey() (any, error) {
	key, err := a.hex()
	if err != nil {
		return nil, err
	}
	if a.relay.rules().listed(key) {
		return nil, callRefusal("the configuration lists this key: take it out there")
	}
	if _, err := a.record(BannedKeys, AllowedKeys); err != nil {
		return nil, err
	}
	return true, a.relay.removeKey(a.ctx, key)
}

func (a *act) allowKey() (any, error) {
	key, err := a.hex()
	if err != nil {
		return nil, err
	}
	if a.relay.rules().denied.has(key) {
		return nil, callRefusal("the configuration denies this key: take it out there")
	}
	return a.record(AllowedKeys, BannedKeys)
}

// withdrawKey takes a key out of the list.
func withdrawKey(list RulingList) func(*act) (any, error) {
	return func(a *act) (any, error) {
		if _, err := a.hex(); err != nil {
			return nil, err
		}
		return a.rule(nil, list)
	}
}

func (a *act) banEvent() (any, error) {
	id, err := a.hex()
	if err != nil {
		return nil, err
	}
	if _, err := a.record(BannedEvents); err != nil {
		return nil, err
	}
	return true, a.relay.removeEvents(a.ctx, []string{id})
}

func (a *act) unbanEvent() (any, error) {
	if _, err := a.hex(); err != nil {
		return nil, err
	}
	return a.rule(nil, BannedEvents)
}

func (a *act) allowKind() (any, error) {
	kind, err := a.kind()
	if err != nil {
		return nil, err
	}
	if slices.Contains(a.relay.rules().Kinds, kind) {
		return true, nil
	}
	one, err := a.ruling(AllowedKinds)
	if err != nil {
		return nil, err
	}
	return a.rule([]Ruling{one})
}

func (a *act) disallowKind() (any, error) {
	kind, err := a.kind()
	if err != nil {
		return nil, err
	}
	if slices.Contains(a.relay.rules().Kinds, kind) {
		return nil, callRefusal("the configuration lists this kind: take it out there")
	}
	return a.rule(nil, AllowedKinds)
}

func (a *act) blockAddress() (any, error) {
	if _, err := a.address(); err != nil {
		return nil, err
	}
	return a.record(BlockedAddresses)
}

func (a *act) unblockAddress() (any, error) {
	if _, err := a.address(); err != nil {
		return nil, err
	}
	return a.rule(nil, BlockedAddresses)
}

// changeText sets a text that the relay shows about itself; an empty one
// brings back that of the configuration.
func changeText(name string, limit int) func(*act) (any, error) {
	return func(a *act) (any, error) {
		text, err := a.text(0, limit, false)
		if err != nil {
			return nil, err
		}
		a.subject = name
		if text == "" {
			return a.rule(nil, Texts)
		}
		if name == "icon" && !isWebAddress(text) {
			return nil, callRefusal("param 1 is not an https or http URL")
		}
		return a.rule([]Ruling{{List: Texts, Subject: name, Text: text, Admin: a.admin, At: a.relay.opts.Now().Unix()}})
	}
}

// listOf lists the rulings of a list; the subject is the member name.
func listOf(list RulingList, name string) func(*act) (any, error) {
	return func(a *act) (any, error) {
		out := []map[string]string{}
		for _, one := range a.relay.rules().rulings.list(list) {
			line := map[string]string{name: one.Subject}
			if one.Text != "" {
				line["reason"] = one.Text
			}
			out = append(out, line)
		}
		return out, nil
	}
}
