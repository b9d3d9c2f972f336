package canonical

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTime_has_one_spelling(t *testing.T) {
	for name, in := range map[string]string{
		"fraction":           `"2026-11-30T12:00:00.0Z"`,
		"comma":              `"2026-11-30T12:00:00,5Z"`,
		"offset":             `"2026-11-30T12:00:00+00:00"`,
		"lower-case letters": `"2026-11-30t12:00:00z"`,
		"no zone":            `"2026-11-30T12:00:00"`,
		"space":              `"2026-11-30 12:00:00Z"`,
		"one-digit hour":     `"2026-11-30T1:00:00Z"`,
		"leap second":        `"2026-12-31T23:59:60Z"`,
		"no such day":        `"2026-02-30T12:00:00Z"`,
		"five-digit year":    `"12026-11-30T12:00:00Z"`,
		"escaped letter":     `"2026-11-30T12:00:00\u005a"`,
		"number":             `1796040000`,
		"digit":              `5`,
		"null":               `null`,
		"empty":              `""`,
	} {
		t.Run(name, func(t *testing.T) {
			var got Time
			if err := Decode([]byte(in), &got); err == nil {
				t.Errorf("took %s as %s", in, got)
			}
		})
	}
}

func TestTime_survives_a_round_trip_to_the_second(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds"))
		data, err := Marshal(At(in.In(time.FixedZone("", 3600))))
		if err != nil {
			t.Fatal(err)
		}
		var out Time
		if err := Decode(data, &out); err != nil {
			t.Fatal(err)
		}
		if out.Unix() != in.Unix() || out.Nanosecond() != 0 || out.Location() != time.UTC {
			t.Fatalf("%s became %s", in, out)
		}
	})
}

func TestTime_beyond_four_digits_has_no_spelling(t *testing.T) {
	if data, err := Marshal(At(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))); err == nil {
		t.Errorf("got %s", data)
	}
}
