package drilltest

import (
	"os"
	"testing"
)

// Long reports whether the long form was asked for: PARLEY_DRILL=1.
func Long() bool { return os.Getenv("PARLEY_DRILL") == "1" }

// Points is how many moments a test visits.
func Points() int {
	switch {
	case Long():
		return 200
	case testing.Short():
		return 3
	}
	return 20
}
