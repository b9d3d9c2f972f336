package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
)

func TestEveryVerb_explainsItselfAndStandsInTheHelp(t *testing.T) {
	var all bytes.Buffer
	if err := run(t.Context(), []string{"-h"}, nil, &all); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	page, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range verbs() {
		if !strings.Contains(all.String(), "\n  "+v.name+" ") || !strings.Contains(all.String(), v.line) {
			t.Errorf("parleyd -h does not list %q", v.name)
		}
		if !strings.Contains(string(page), "parleyd "+v.name) && !strings.Contains(string(page), "| "+v.name) {
			t.Errorf("the package comment does not name %q", v.name)
		}
		var own bytes.Buffer
		if err := run(t.Context(), append(strings.Fields(v.name), "-h"), nil, &own); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("parleyd %s -h = %v", v.name, err)
		}
		if v.args != "" && v.run != nil && !strings.Contains(own.String(), "  parleyd -c parley.yaml "+v.name) {
			t.Errorf("parleyd %s -h has no example:\n%s", v.name, own.String())
		}
	}
}

func TestFlags_mayStandBeforeAndAfterTheVerb(t *testing.T) {
	for _, words := range [][]string{{"-c", "nowhere.yaml", "vacuum"}, {"vacuum", "-c", "nowhere.yaml"}, {"backup", "-c", "nowhere.yaml", "x.tar"}, {"backup", "x.tar", "-c", "nowhere.yaml"}} {
		var out bytes.Buffer
		if err := run(t.Context(), words, &out, &out); !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "nowhere.yaml") {
			t.Errorf("parleyd %v = %v", words, err)
		}
	}
}
