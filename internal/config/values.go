package config

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/parleykit/parley/internal/egress"
)

func errText(text string) error { return errors.New(text) }

// Duration is a time span written like "30s", "5m" or "1h30m".
type Duration struct{ time.Duration }

// UnmarshalText reads a span that is not negative.
func (d *Duration) UnmarshalText(text []byte) error {
	span, err := time.ParseDuration(string(text))
	if err != nil || span < 0 {
		return fmt.Errorf("not a duration such as 30s: %.20q", text)
	}
	d.Duration = span
	return nil
}

// MarshalText writes the form UnmarshalText reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// ByteSize is a number of bytes written like "512B", "64KiB" or "1MiB".
type ByteSize int64

// units from large to small, so that String finds the largest that fits.
var units = []struct {
	suffix string
	bytes  ByteSize
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// UnmarshalText reads a whole number with a unit of B, KiB, MiB or GiB.
func (b *ByteSize) UnmarshalText(text []byte) error {
	for _, unit := range units {
		digits, found := strings.CutSuffix(string(text), unit.suffix)
		if !found {
			continue
		}
		count, err := strconv.ParseUint(digits, 10, 63)
		if err != nil || count > math.MaxInt64/uint64(unit.bytes) {
			break
		}
		*b = ByteSize(count) * unit.bytes
		return nil
	}
	return fmt.Errorf("not a size such as 64KiB: %.20q", text)
}

// String is the shortest exact form.
func (b ByteSize) String() string {
	for _, unit := range units {
		if b != 0 && b%unit.bytes == 0 {
			return strconv.FormatInt(int64(b/unit.bytes), 10) + unit.suffix
		}
	}
	return "0B"
}

// MarshalText writes the form UnmarshalText reads.
func (b ByteSize) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// Prefix is a network such as "10.0.0.0/8", or one address.
type Prefix struct{ netip.Prefix }

// UnmarshalText reads an address or a network without host bits.
func (p *Prefix) UnmarshalText(text []byte) error {
	if addr, err := netip.ParseAddr(string(text)); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		p.Prefix = netip.PrefixFrom(addr, addr.BitLen())
		return nil
	}
	prefix, err := netip.ParsePrefix(string(text))
	if err != nil || prefix != prefix.Masked() {
		return fmt.Errorf("not an address or network: %.50q", text)
	}
	p.Prefix = prefix
	return nil
}

// Allow is an exception of the egress rule: see egress.ParseAllow.
type Allow struct{ egress.Allow }

// UnmarshalText reads an address, a network or host, with or without port.
func (a *Allow) UnmarshalText(text []byte) error {
	allow, err := egress.ParseAllow(string(text))
	if err != nil {
		return errText(strings.TrimPrefix(err.Error(), "egress: "))
	}
	a.Allow = allow
	return nil
}
