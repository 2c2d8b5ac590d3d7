package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// table has a row for each figure and a column for each contender. A cell has one value for
// each round.
type table struct {
	columns []string
	rows    []*row
}

type row struct {
	title string
	cells [][]string
}

// add adds a contender's figures in a workload.
func (t *table) add(w workload, column int, f figures) {
	set := func(what, value string) { t.set(w.Title+": "+what, column, value) }
	switch w.Name {
	case nameSlots:
		set("slots in use", fmt.Sprintf("%.4f", f.SlotsUsed))
		set("calls refused", fmt.Sprint(f.Refused))
	case nameWindow:
		set("share of the rate", fmt.Sprintf("%.3f", f.RateUsed))
		set("calls refused", fmt.Sprint(f.Refused))
		set("Redis's CPU a call", microseconds(f.RedisCPU))

	case nameModels:
		set("fast one done (ideal 9.1 s)", fmt.Sprintf("%.1f s", f.Done.Seconds()))
		set("calls refused", fmt.Sprint(f.Refused))
	case nameEmpty:
		set("calls a second", fmt.Sprintf("%.0f", f.PerSecond))
		set("workers' CPU a call", microseconds(f.WorkerCPU))
		set("Redis's CPU a call", microseconds(f.RedisCPU))
	case nameKill:
		back := "never"
		if f.SlotsBack > 0 {
			back = fmt.Sprintf("%.1f s", f.SlotsBack.Seconds())
		}
		set("all slots in use again after", back)
		set("runs without an answer", fmt.Sprint(f.Lost))
		set("calls repeated", fmt.Sprint(f.Repeats))
	}
}

func microseconds(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return fmt.Sprintf("%d µs", d.Microseconds())
}

func (t *table) set(title string, column int, value string) {
	for _, r := range t.rows {
		if r.title == title {
			r.cells[column] = append(r.cells[column], value)
			return
		}
	}
	r := &row{title, make([][]string, len(t.columns))}
	r.cells[column] = []string{value}
	t.rows = append(t.rows, r)
}

// String renders the table as Markdown.
func (t *table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| workload | %s |\n|---|%s\n", strings.Join(t.columns, " | "), strings.Repeat("---|", len(t.columns)))
	for _, r := range t.rows {
		fmt.Fprintf(&b, "| %s |", r.title)
		for _, values := range r.cells {
			if len(values) == 0 {
				values = []string{"–"}
			}
			fmt.Fprintf(&b, " %s |", strings.Join(values, " / "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// modules names the versions of the Go libraries that are compared.
func modules() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	var found []string
	for _, m := range info.Deps {
		switch m.Path {
		case "github.com/hibiken/asynq", "github.com/go-redis/redis_rate/v10":
			found = append(found, m.Version)
		}
	}
	return strings.Join(found, ", ")
}

// machine names the processor, where the system tells it.
func machine() string {
	name := runtime.GOARCH
	if raw, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(raw)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				name = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d CPUs (%s), %s", runtime.NumCPU(), name, runtime.Version())
}
