package message

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func TestDecodeBody_refuses_bodies_against_their_rules(t *testing.T) {
	event := `{"id":"` + strings.Repeat("0a", 32) + `","pubkey":"` + alice + `","created_at":1,"kind":1418,"tags":[],"content":"","sig":"` + strings.Repeat("0b", 64) + `"}`
	unsigned := strings.Replace(event, `,"sig":"`+strings.Repeat("0b", 64)+`"`, "", 1)
	result := func(rest string) string { return `{"in_reply_to":"` + firstID + `"` + rest + `}` }
	for name, c := range map[string]struct{ typ, body string }{
		"text: empty":                   {TypeText, `{"text":""}`},
		"text: absent":                  {TypeText, `{}`},
		"text: null":                    {TypeText, `{"text":null}`},
		"text: extra member":            {TypeText, `{"text":"a","html":"b"}`},
		"text: member in another case":  {TypeText, `{"Text":"a"}`},
		"ack: no UUID":                  {TypeAck, `{"id":"1"}`},
		"ack: UUIDv4":                   {TypeAck, `{"id":"2c1b9f64-5f0e-4b5a-9d0e-2f6f0f5b8d11"}`},
		"ack: upper-case UUID":          {TypeAck, `{"id":"` + strings.ToUpper(firstID) + `"}`},
		"ack: braces":                   {TypeAck, `{"id":"{` + firstID + `}"}`},
		"ack: urn":                      {TypeAck, `{"id":"urn:uuid:` + firstID + `"}`},
		"ack: other variant":            {TypeAck, `{"id":"019ad4a2-2c00-7000-c000-000000000001"}`},
		"nack: long reason":             {TypeNack, `{"id":"` + firstID + `","reason":"` + strings.Repeat("a", MaxDetail+1) + `"}`},
		"nack: id and digest":           {TypeNack, `{"digest":"` + strings.Repeat("a", 64) + `","id":"` + firstID + `","missing":[{"from":1,"to":1}]}`},
		"nack: digest without ranges":   {TypeNack, `{"digest":"` + strings.Repeat("a", 64) + `"}`},
		"nack: ranges without digest":   {TypeNack, `{"id":"` + firstID + `","missing":[{"from":1,"to":1}]}`},
		"nack: short digest":            {TypeNack, `{"digest":"aa","missing":[{"from":1,"to":1}]}`},
		"nack: part 0":                  {TypeNack, `{"digest":"` + strings.Repeat("a", 64) + `","missing":[{"from":0,"to":1}]}`},
		"nack: part 65":                 {TypeNack, `{"digest":"` + strings.Repeat("a", 64) + `","missing":[{"from":1,"to":65}]}`},
		"nack: range backwards":         {TypeNack, `{"digest":"` + strings.Repeat("a", 64) + `","missing":[{"from":2,"to":1}]}`},
		"nack: ranges overlap":          {TypeNack, `{"digest":"` + strings.Repeat("a", 64) + `","missing":[{"from":1,"to":2},{"from":2,"to":3}]}`},
		"nack: no id":                   {TypeNack, `{"reason":"a"}`},
		"error: no code":                {TypeError, `{"id":"` + firstID + `"}`},
		"error: no id":                  {TypeError, `{"code":"a"}`},
		"error: code with a space":      {TypeError, `{"id":"` + firstID + `","code":"a b"}`},
		"error: long detail":            {TypeError, `{"id":"` + firstID + `","code":"a","detail":"` + strings.Repeat("a", MaxDetail+1) + `"}`},
		"carriers: absent":              {TypeContactCarriers, `{}`},
		"carriers: seventeen":           {TypeContactCarriers, `{"carriers":[` + strings.Repeat(`{"scheme":"a","address":"b","priority":0},`, MaxCarriers) + `{"scheme":"a","address":"b","priority":0}]}`},
		"carriers: no address":          {TypeContactCarriers, `{"carriers":[{"scheme":"a","priority":0}]}`},
		"carriers: no scheme":           {TypeContactCarriers, `{"carriers":[{"address":"a","priority":0}]}`},
		"carriers: long address":        {TypeContactCarriers, `{"carriers":[{"scheme":"a","address":"` + strings.Repeat("a", MaxAddress+1) + `","priority":0}]}`},
		"carriers: negative":            {TypeContactCarriers, `{"carriers":[{"scheme":"a","address":"b","priority":-1}]}`},
		"carriers: priority 256":        {TypeContactCarriers, `{"carriers":[{"scheme":"a","address":"b","priority":256}]}`},
		"propose: no revision":          {TypeAgreementPropose, `{"signature":` + event + `}`},
		"propose: revision an object":   {TypeAgreementPropose, `{"revision":{},"signature":` + event + `}`},
		"propose: no signature":         {TypeAgreementPropose, `{"revision":"{}"}`},
		"propose: unsigned":             {TypeAgreementPropose, `{"revision":"{}","signature":` + unsigned + `}`},
		"invite: no signature":          {TypeAgreementInvite, `{"revision":"{}"}`},
		"invite: event with extra":      {TypeAgreementInvite, `{"revision":"{}","signature":` + strings.Replace(event, `{`, `{"x":1,`, 1) + `}`},
		"command: short key":            {TypeAgreementCommand, `{"command":{},"key":"1234567"}`},
		"command: long key":             {TypeAgreementCommand, `{"command":{},"key":"` + strings.Repeat("k", 129) + `"}`},
		"command: key with a slash":     {TypeAgreementCommand, `{"command":{},"key":"12345678/"}`},
		"command: absent":               {TypeAgreementCommand, `{"key":"12345678"}`},
		"command: a string":             {TypeAgreementCommand, `{"command":"{}","key":"12345678"}`},
		"command: null":                 {TypeAgreementCommand, `{"command":null,"key":"12345678"}`},
		"command: unsigned signature":   {TypeAgreementCommand, `{"command":{},"key":"12345678","signature":` + unsigned + `}`},
		"command: null signature":       {TypeAgreementCommand, `{"command":{},"key":"12345678","signature":null}`},
		"result: neither":               {TypeAgreementResult, result(`,"agreement_id":"` + firstID + `"`)},
		"result: both":                  {TypeAgreementResult, result(`,"agreement_id":"` + firstID + `","event":{},"refusal":{"code":"a"}`)},
		"result: event without room":    {TypeAgreementResult, result(`,"event":{}`)},
		"result: event a list":          {TypeAgreementResult, result(`,"agreement_id":"` + firstID + `","event":[]`)},
		"result: refusal without code":  {TypeAgreementResult, result(`,"refusal":{}`)},
		"result: refusal, room no UUID": {TypeAgreementResult, result(`,"agreement_id":"x","refusal":{"code":"a"}`)},
		"result: answers nothing":       {TypeAgreementResult, `{"refusal":{"code":"a"}}`},
		"event: no outcome":             {TypeAgreementEvent, `{"event":{}}`},
		"event: absent":                 {TypeAgreementEvent, `{"outcome":"pending"}`},
		"query: no room":                {TypeAgreementQuery, `{"from":1}`},
		"query: negative":               {TypeAgreementQuery, `{"agreement_id":"` + firstID + `","from":-1}`},
		"artifact: no bundle":           {TypeAgreementArtifact, `{"agreement_id":"` + firstID + `"}`},
		"artifact: no room":             {TypeAgreementArtifact, `{"bundle":"{}"}`},
		"an array":                      {TypeText, `[]`},
		"an unknown type and no object": {"x.y", `"text"`},
		"an unknown type and no body":   {"x.y", `null`},
		"a type with a space":           {"x y", `{}`},
		"a type longer than 64":         {strings.Repeat("x", 65), `{}`},
		"an empty type":                 {"", `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			m := *examples(t)[TypeText]
			m.Type, m.Body = c.typ, jsontext.Value(c.body)
			if err := m.validate(); !errors.Is(err, ErrMalformed) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestDecodeBody_takes_what_may_be_absent(t *testing.T) {
	for typ, body := range map[string]string{
		TypeNack:             `{"id":"` + firstID + `"}`,
		TypeError:            `{"id":"` + firstID + `","code":"busy"}`,
		TypeContactCarriers:  `{"carriers":[]}`,
		TypeAgreementCommand: `{"command":{},"key":"12345678"}`,
		TypeAgreementResult:  `{"in_reply_to":"` + firstID + `","refusal":{"code":"invalid"}}`,
		TypeAgreementQuery:   `{"agreement_id":"` + firstID + `"}`,
	} {
		m := *examples(t)[TypeText]
		m.Type, m.Body = typ, jsontext.Value(body)
		if err := m.validate(); err != nil {
			t.Errorf("%s: %v", typ, err)
		}
	}
}

func TestDecodeBody_refuses_the_body_of_another_type(t *testing.T) {
	if err := DecodeBody(examples(t)[TypeText], &Ack{}); !errors.Is(err, ErrType) {
		t.Errorf("got %v", err)
	}
}

func TestNackOfPartsKeepsItsRanges(t *testing.T) {
	want := Nack{Digest: strings.Repeat("0a", 32), Reason: "parts are missing", Missing: []Range{{1, 2}, {64, 64}}}
	m, err := New(TypeNack, alice, bob, want, now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	var got Nack
	if err := DecodeBody(m, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}
