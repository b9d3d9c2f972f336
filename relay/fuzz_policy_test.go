package relay

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzManagementCall(f *testing.F) {
	for _, s := range []string{
		`{"method":"banpubkey","params":["x"]}`, `{}`, `null`, `{"method":"a","params":[[[[]]]]}`, `{"method":"allowkind","params":[1e400]}`,
		`{"method":"changerelayname","params":[null,"\ud800"]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := parseCall(body)
		if err != nil {
			return
		}
		a := act{params: c.Params}
		for _, read := range []func() error{
			func() error { _, err := a.hex(); return err },
			func() error { _, err := a.kind(); return err },
			func() error { _, err := a.address(); return err },
			func() error {
				s, err := a.text(1, maxRuled, true)
				if err == nil && (len(s) > maxRuled || !utf8.ValidString(s)) {
					t.Errorf("%q gives %q", body, s)
				}
				return err
			},
		} {
			_ = read() // it must not panic
		}
	})
}

func FuzzPluginAnswer(f *testing.F) {
	for _, s := range []string{
		`{"id":"x","action":"accept"}`, `{"id":"x","action":"reject","msg":"blocked: no"}`, `{"id":"x","action":"shadowReject"}`,
		`{"id":"x","action":"reject","msg":"\u0000\ud800 line\nline"}`, `{}`, `[]`, ``, `{"id":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		_, v, err := parseAnswer(line)
		if err != nil {
			return
		}
		prefix, _, found := strings.Cut(v.text, ":")
		if (v.kind == verdictReject) != found || strings.ContainsAny(prefix, " \n") || len(v.text) > maxPluginText+len("blocked: ") ||
			!utf8.ValidString(v.text) || strings.ContainsAny(v.text, "\r\n") {
			t.Errorf("%q gives %v", line, v)
		}
	})
}
