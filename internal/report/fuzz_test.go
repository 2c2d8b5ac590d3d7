package report

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"strconv"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/providers"
)

// FuzzFewResults: an evaluation that ends early, with whatever results it has, has a report in
// every form, and no number in it is impossible.
func FuzzFewResults(f *testing.F) {
	f.Add([]byte{2, 1, 1}, uint8(0))
	f.Add([]byte{3, 2, 2, 0, 0, 1, 1, 9, 2, 20, 4, 33, 7, 64}, uint8(0x24))
	f.Add([]byte{4, 3, 1, 0, 0, 5, 0, 1, 0, 6, 0, 40, 2, 41, 3, 42, 4, 80, 9}, uint8(0x1f))
	f.Add([]byte{5, 2, 3, 0, 1, 64, 0, 2, 2, 66, 3, 7, 4, 71, 5, 72, 6, 129, 7, 130, 8, 15, 10, 20, 12}, uint8(0x3b))
	f.Add([]byte("\xa6Cg\xc98aQz\xa5\xf7KB\x81PH,J8\xe3"), uint8(178)) // groups that are too small to tell beside one that is not
	f.Fuzz(fewResults)
}

func fewResults(t *testing.T, data []byte, options uint8) {
	if len(data) < 3 {
		return
	}
	r := built(t, few(data), Options{
		Ties: rank.Ties(options & 1), Fallback: options&2 != 0, Length: options&4 != 0,
		NoPosition: options&8 != 0, FlipsTie: options&16 != 0, Scales: options&32 != 0,
	})
	for form, write := range map[string]func(io.Writer) error{
		"card": func(w io.Writer) error { return r.WriteCard(w, CardOptions{TextOptions: TextOptions{Width: 60}}) },
		"text": func(w io.Writer) error { return r.WriteText(w, TextOptions{}) },
		"md":   r.WriteMarkdown, "html": r.WriteHTML, "json": r.WriteJSON,
	} {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		if form == "json" && !json.Valid(out.Bytes()) {
			t.Errorf("not JSON: %s", out.String())
		}
		if form != "html" { // its scripts contain such words
			possible(t, form, out.String())
		}
	}
	r.Result()
}

var (
	noNumber   = regexp.MustCompile(`NaN|\bInf\b|[+−-]Inf`)
	percentage = regexp.MustCompile(`([0-9,.]+) %`)
)

// possible fails on what is no number, and on percentages over 100.
func possible(t *testing.T, form, text string) {
	t.Helper()
	if found := noNumber.FindStringIndex(text); found != nil {
		t.Errorf("%s: …%s…", form, text[max(0, found[0]-60):min(len(text), found[1]+20)])
	}
	for _, found := range percentage.FindAllStringSubmatchIndex(text, -1) {
		if p, err := strconv.ParseFloat(text[found[2]:found[3]], 64); err != nil || p > 100 {
			t.Errorf("%s: …%s…", form, text[max(0, found[0]-60):min(len(text), found[1]+20)])
		}
	}
}

// few is an evaluation of at most 5 candidates on 3 items by 3 judges. The first three bytes
// choose these numbers; every two bytes after them are one result: its pair, its judge and its
// outcome.
func few(data []byte) *memory {
	candidates, items, judges := 2+int(data[0])%4, 1+int(data[1])%3, 1+int(data[2])%3
	m := sourceOf(plan(names(candidates), names(items), names(judges)...))
	e := m.evaluation.Plan
	m.counts = []results.PhaseCounts{{Kind: eval.KindPairwise, Runs: items * candidates * (candidates - 1) * judges, Classes: map[string]int{}}}
	type asked struct {
		rater         string
		first, second int
	}
	known := map[asked]bool{}
	for data = data[3:]; len(data) >= 2; data = data[2:] {
		on, how := int(data[0]), int(data[1])
		item, judge := on/32%items, how/4%judges
		first, second := on%candidates, on/8%candidates
		person := how >= 128
		if first == second || person && first > second {
			continue
		}
		a, b := e.Documents[item*candidates+first].ID, e.Documents[item*candidates+second].ID
		one := asked{strconv.FormatBool(person) + e.Judges[judge].Name, item*candidates + first, item*candidates + second}
		if known[one] {
			continue
		}
		known[one] = true
		winner := []string{a, b, eval.Tie, eval.Tie}[how%4]
		switch {
		case person:
			m.vote(strconv.Itoa(judge), a, b, winner)
			continue
		case how >= 96:
			m.withFailures(1, providers.Timeout, "no answer")
			m.counts[0].Runs--
			continue
		}
		row := m.verdict(judge, a, b, winner, "because")
		if how%4 == 3 {
			row.Reason, row.AnsweredBy = "identical", ""
		}
		m.counts[0].Succeeded++
	}
	return m
}
