package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// report prints the tables.
func report(p plan, subjects []*subject, costs map[string]float64, before string) {
	fmt.Printf("%s, %d processors, %s, load average %s before and %s after; %d repetitions of %s, median (least–most).\n\n",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.Version(), before, loadAverage(), p.repetitions, p.length)
	scenarios := strings.Split(p.scenarios, ",")
	table("in a second", subjects, scenarios, func(s *subject, scenario string) string {
		return cell(s.of(scenario, func(r result) float64 { return r.Rate }))
	})
	ratios(subjects, scenarios)
	table("p50 / p99 in ms", subjects, scenarios, func(s *subject, scenario string) string {
		p50, ok := spreadOf(s.of(scenario, func(r result) float64 { return r.P50 }))
		p99, _ := spreadOf(s.of(scenario, func(r result) float64 { return r.P99 }))
		if !ok {
			return "–"
		}
		return short(p50.median) + " / " + short(p99.median)
	})
	table("µs of processor for one, relay + client", subjects, scenarios, func(s *subject, scenario string) string {
		each := func(seconds func(result) float64) spread {
			x, _ := spreadOf(s.of(scenario, func(r result) float64 { return seconds(r) / float64(max(r.Ops, 1)) * 1e6 }))
			return x
		}
		if len(s.numbers[scenario]) == 0 {
			return "–"
		}
		return short(each(func(r result) float64 { return r.Relay }).median) + " + " + short(each(func(r result) float64 { return r.Client }).median)
	})
	others(p, subjects, scenarios, costs)
}

func table(what string, subjects []*subject, scenarios []string, cell func(*subject, string) string) {
	fmt.Printf("| %s |", what)
	for _, s := range subjects {
		fmt.Printf(" %s |", s.name)
	}
	fmt.Print("\n|---|" + strings.Repeat("---|", len(subjects)) + "\n")
	for _, scenario := range scenarios {
		fmt.Printf("| %s |", scenario)
		for _, s := range subjects {
			fmt.Printf(" %s |", cell(s, scenario))
		}
		fmt.Println()
	}
	fmt.Println()
}

func cell(values []float64) string {
	s, ok := spreadOf(values)
	if !ok {
		return "–"
	}
	return s.String()
}

// ratios prints ours over the best of the others, by medians of the same run.
func ratios(subjects []*subject, scenarios []string) {
	var ours []*subject
	for _, s := range subjects {
		if s.ours {
			ours = append(ours, s)
		}
	}
	table("times the best of the others", ours, scenarios, func(s *subject, scenario string) string {
		best := 0.0
		for _, other := range subjects {
			if x, ok := spreadOf(other.of(scenario, func(r result) float64 { return r.Rate })); ok && !other.ours {
				best = max(best, x.median)
			}
		}
		x, ok := spreadOf(s.of(scenario, func(r result) float64 { return r.Rate }))
		if !ok || best == 0 {
			return "–"
		}
		return short(x.median / best)
	})
}

// others prints what is no rate.
func others(p plan, subjects []*subject, scenarios []string, costs map[string]float64) {
	row := func(name string, cell func(*subject) string) {
		fmt.Printf("| %s |", name)
		for _, s := range subjects {
			fmt.Printf(" %s |", cell(s))
		}
		fmt.Println()
	}
	fmt.Print("| other |")
	for _, s := range subjects {
		fmt.Printf(" %s |", s.name)
	}
	fmt.Print("\n|---|" + strings.Repeat("---|", len(subjects)) + "\n")
	row("start over the filled store, ms", func(s *subject) string { return cell(s.starts) })
	for _, scenario := range scenarios {
		if !strings.HasPrefix(scenario, "stopped") {
			continue
		}
		row(scenario+": p99 without / beside the one that stopped, ms", func(s *subject) string {
			alone, ok := spreadOf(s.of(scenario, func(r result) float64 { return r.Alone }))
			beside, _ := spreadOf(s.of(scenario, func(r result) float64 { return r.P99 }))
			missing, _ := spreadOf(s.of(scenario, func(r result) float64 { return float64(r.Missing) }))
			if !ok {
				return "–"
			}
			return fmt.Sprintf("%s / %s, %s not delivered", short(alone.median), short(beside.median), short(missing.median))
		})
	}
	row("memory after all, MB", func(s *subject) string {
		return cell(s.of(scenarios[len(scenarios)-1], func(r result) float64 { return float64(r.Memory) / 1e6 }))
	})
	row(p.idle+": bytes of each", func(s *subject) string {
		return cell(s.of(p.idle, func(r result) float64 { return float64(r.Growth) / float64(max(r.Ops, 1)) }))
	})
	row("one signature, µs", func(s *subject) string {
		if costs[s.name] == 0 {
			return "–"
		}
		return short(costs[s.name] / 1000)
	})
	row("share of the limit that signatures set, ingest-64", func(s *subject) string {
		x, ok := spreadOf(s.of("ingest-64", func(r result) float64 { return r.Rate }))
		if costs[s.name] == 0 || !ok {
			return "–"
		}
		return fmt.Sprintf("%.0f %%", 100*x.median/(float64(runtime.NumCPU())/costs[s.name]*1e9))
	})
}
