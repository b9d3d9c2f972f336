package load

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// ticks of the processor clock in a second, the same on every Linux.
const ticks = 100

// usage is what a process has used until now, as /proc shows it; all zero where
// there is no such process or no /proc.
type usage struct {
	cpu    time.Duration
	memory int64 // resident bytes
}

// usageOf reads the usage of a process; pid 0 is none.
func usageOf(pid int) (u usage) {
	if pid == 0 {
		return u
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u
	}
	_, rest, _ := bytes.Cut(stat, []byte(") ")) // the name may hold anything
	fields := bytes.Fields(rest)
	if len(fields) < 22 {
		return u
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(string(fields[i]), 10, 64)
		return n
	}
	return usage{
		cpu:    time.Duration(number(11)+number(12)) * (time.Second / ticks),
		memory: number(21) * int64(os.Getpagesize()),
	}
}
