package relay

import (
	"errors"
	"strings"
	"testing"
)

// openKinds are those of the zero policy.
var openKinds = newRules(Policy{Kinds: DefaultKinds()}, Limits{}, rulings{}).open()

func TestPolicyIsCheckedAsAWhole(t *testing.T) {
	key := strings.Repeat("a", 64)
	for name, p := range map[string]Policy{
		"ephemeral kind":        {Kinds: []int{5, 62, 20001}},
		"kind too large":        {Kinds: []int{5, 62, 65536}},
		"negative kind":         {Kinds: []int{5, 62, -1}},
		"without deletion":      {Kinds: []int{62, 30417}},
		"without vanishing":     {Kinds: []int{5, 30417}},
		"no kinds":              {Kinds: []int{}},
		"author":                {Authors: []string{"abc"}},
		"denied":                {Denied: []string{strings.Repeat("A", 64)}},
		"denied and listed":     {Authors: []string{key}, Denied: []string{key}},
		"denied and admin":      {Admins: []string{key}, Denied: []string{key}},
		"recipient":             {Recipients: []string{""}},
		"admin":                 {Admins: []string{"npub1"}},
		"operator":              {PubKey: "x"},
		"work":                  {Work: MaxWork + 1},
		"negative work":         {Work: -1},
		"work of a kind":        {KindWork: map[int]int{0: MaxWork + 1}},
		"work of no kind":       {KindWork: map[int]int{1: 8}},
		"carrier":               {Carriers: []string{"pigeon"}},
		"bridge":                {Bridges: []Bridge{{Key: "x", Scheme: "ntfy"}}},
		"bridge without scheme": {Bridges: []Bridge{{Key: key}}},
		"bridge recipient":      {Bridges: []Bridge{{Key: key, Scheme: "ntfy", Recipients: []string{"x"}}}},
		"quota":                 {WrapQuota: -1},
		"retention":             {WrapRetention: -1},
		"posting policy":        {PostingPolicy: "javascript:alert(1)"},
		"name":                  {Name: "\xff"},
	} {
		if err := p.Check(); !errors.Is(err, ErrPolicy) {
			t.Errorf("%s: %v", name, err)
		}
	}
	good := Policy{
		Kinds: []int{1, 5, 62, 30023}, Authors: []string{key}, Work: 8, KindWork: map[int]int{1: 0}, Carriers: []string{"nostr"},
		Bridges: []Bridge{{Key: key, Scheme: "ntfy", Recipients: []string{key}}}, Admins: []string{key}, PostingPolicy: "https://relay.example/rules",
	}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	if err := (Policy{}).Check(); err != nil {
		t.Errorf("the zero policy: %v", err)
	}
}
