package carrier

import (
	"bytes"
	"slices"
)

// maxCombinations is how many ways to put frames together are tried.
const maxCombinations = 4

// piece is a stored frame.
type piece struct {
	from    int
	payload []byte
}

func (p piece) end() int { return p.from + len(p.payload) }

// assemble puts frames of one wrap together, oldest first, also overlapping
// ones and ones that contradict each other. It returns the wrap, or how many
// combinations that cover it were tried in vain.
func assemble(pieces []piece, key [16]byte, total int) (wrap []byte, tried int) {
	segments := cut(pieces, total)
	if segments == nil {
		return nil, 0
	}
	for _, choice := range choices(segments) {
		tried++
		wrap = make([]byte, 0, total)
		for i, contents := range segments {
			wrap = append(wrap, contents[choice[i]]...)
		}
		if frameKey(wrap) == key {
			return wrap, tried
		}
	}
	return nil, tried
}

// cut divides the wrap wherever a piece begins or ends and lists, for each
// segment, the different contents it has, the oldest first; nil when there is
// a gap.
func cut(pieces []piece, total int) [][][]byte {
	ends := []int{0, total}
	for _, p := range pieces {
		ends = append(ends, p.from, p.end())
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	if ends[len(ends)-1] != total {
		return nil
	}
	segments := make([][][]byte, len(ends)-1)
	for _, p := range pieces {
		for i, _ := slices.BinarySearch(ends, p.from); ends[i] < p.end(); i++ {
			content := p.payload[ends[i]-p.from : ends[i+1]-p.from]
			if !slices.ContainsFunc(segments[i], func(other []byte) bool { return bytes.Equal(other, content) }) {
				segments[i] = append(segments[i], content)
			}
		}
	}
	if slices.ContainsFunc(segments, func(contents [][]byte) bool { return len(contents) == 0 }) {
		return nil
	}
	return segments
}

// choices lists up to maxCombinations ways to take one content of each
// segment: all the oldest, all the newest, then others.
func choices(segments [][][]byte) [][]int {
	oldest, newest := make([]int, len(segments)), make([]int, len(segments))
	for i, contents := range segments {
		newest[i] = len(contents) - 1
	}
	all := [][]int{oldest}
	if !slices.Equal(oldest, newest) {
		all = append(all, newest)
	}
	for next := oldest; len(all) < maxCombinations; {
		if next = increment(next, segments); next == nil {
			break
		}
		if !slices.Equal(next, newest) {
			all = append(all, next)
		}
	}
	return all
}

// increment counts on, the first segment fastest; nil after the last choice.
func increment(choice []int, segments [][][]byte) []int {
	next := slices.Clone(choice)
	for i := range next {
		if next[i]++; next[i] < len(segments[i]) {
			return next
		}
		next[i] = 0
	}
	return nil
}
