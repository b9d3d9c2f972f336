package wellknown

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestCarriersAreSignedAndReadBack(t *testing.T) {
	doc := document()
	doc.Carriers = []Carrier{
		{"https", "https://parley.example/carrier/v1/envelopes"},
		{"mqtt", "mqtts://parley.example:8483"},
		{"ntfy", "https://ntfy.example"},
		{"pigeon", "loft:7"},
	}
	data, err := Sign(doc, newSeedKey(1))
	if err != nil {
		t.Fatal(err)
	}
	opened, err := Open(data)
	if err != nil || !slices.Equal(opened.Carriers, doc.Carriers) {
		t.Errorf("read %+v, %v", opened, err)
	}
	without, err := Sign(document(), newSeedKey(1))
	if err != nil || strings.Contains(string(without), "carriers") {
		t.Errorf("without carriers: %s, %v", without, err)
	}
}

func TestCarriersThatNobodyCouldUseAreRefused(t *testing.T) {
	https := Carrier{"https", "https://parley.example/carrier/v1/envelopes"}
	for name, list := range map[string][]Carrier{
		"an empty list":        {},
		"nine":                 slices.Repeat([]Carrier{https}, MaxCarriers+1),
		"no scheme":            {{"", "https://parley.example"}},
		"an upper-case scheme": {{"MQTT", "mqtts://parley.example"}},
		"no address":           {{"mqtt", ""}},
		"a long address":       {{"pigeon", strings.Repeat("x", maxCarrierAddress+1)}},
		"an address in lines":  {{"pigeon", "a\nb"}},
		"another URL scheme":   {{"mqtt", "https://parley.example"}},
		"a secret":             {{"mqtt", "mqtts://a:b@parley.example"}},
		"a query":              {{"https", "https://parley.example/?token=x"}},
		"a broker's topic":     {{"mqtt", "mqtts://parley.example/topic"}},
		"no host":              {{"ntfy", "https:///"}},
	} {
		doc := document()
		doc.Carriers = list
		if _, err := Sign(doc, newSeedKey(1)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
