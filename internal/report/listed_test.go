package report

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
)

// listedSource is an evaluation of four listed runs on two models, one with
// failed, one was cut off and one has not ended.
func listedSource() *memory {
	e := &eval.Evaluation{
		Name: "letters", Items: []eval.Item{{}}, JSON: eval.JSONFalse, Reasoning: eval.Off,
		Runs: &eval.Runs{
			Models: []eval.Judge{
				{Name: "openai:gpt-5-mini", Provider: "openai", Model: "gpt-5-mini"},
				{Name: "google:gemini", Provider: "google", Model: "gemini"},
				{Name: "openai:gpt-5-mini", Provider: "openai", Model: "gpt-5-mini", Overrides: map[string]any{"reasoning_effort": "low"}},
			},
			Files: []eval.Document{{ID: "instructions.md"}, {ID: "input.md"}},
			List:  []eval.FileRun{{ID: "r1"}, {ID: "r2", Model: 1}, {ID: "r3", Model: 2}, {ID: "r4", Model: 1}},
		},
	}
	m := sourceOf(e)
	m.counts = []results.PhaseCounts{{Kind: eval.KindRuns, Runs: 4, Succeeded: 2, Failed: 1, Classes: map[string]int{"ungrounded": 1}}}
	m.calls = nil
	row := func(index int, name, model, state, finish string, cost float64) results.RunRow {
		at := m.evaluation.Created.Add(time.Duration(index) * time.Minute)
		return results.RunRow{
			Run:  record.Run{Index: index, Kind: eval.KindRuns, Name: name, State: state, Judge: model, Model: model, Finish: finish, Documents: []string{"instructions.md", "input.md"}, Attempts: 1, Started: at.Add(-1500 * time.Millisecond), Ended: at},
			Used: results.Usage{Calls: 1, Input: 1000, Output: 50, CostUSD: cost},
		}
	}
	m.responses = []results.RunRow{
		row(0, "r1", "openai:gpt-5-mini", "succeeded", "stop", 0.5),
		row(1, "<r2>", "google:gemini", "failed", "", 0.25),
		row(2, "r3", "openai:gpt-5-mini", "succeeded", "truncated", 0.5),
	}
	m.failed = m.responses[1:2]
	m.failed[0].Class, m.failed[0].Error = "ungrounded", "no search was made"
	return m
}

func TestReportOfListedRuns(t *testing.T) {
	t.Parallel()
	r, err := Build(t.Context(), listedSource(), "ev-abcdefgh2345", Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []Listed{
		{Model: "openai:gpt-5-mini", Runs: 2, Succeeded: 2, Truncated: 1, Used: results.Usage{Calls: 2, Input: 2000, Output: 100, CostUSD: 1}},
		{Model: "google:gemini", Runs: 2, Failed: 1, Used: results.Usage{Calls: 1, Input: 1000, Output: 50, CostUSD: 0.25}},
	}
	if diff := cmp.Diff(want, r.Listed); diff != "" {
		t.Errorf("listed runs (-want +got):\n%s", diff)
	}
	if got := r.Rankings(); got.Tables != nil {
		t.Errorf("rankings of nothing: %+v", got)
	}
	var text, page strings.Builder
	if err := r.WriteText(&text, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{
		"4 runs · 2 models · 2 files", "2 of 4 runs have an answer.", "1 of 4 runs failed and has no answer",
		"1 of 4 runs has no result yet", "1 answer cut off", "openai:gpt-5-mini", "2,000",
	} {
		if !strings.Contains(text.String(), words) {
			t.Errorf("the text does not say %q:\n%s", words, text.String())
		}
		if !strings.Contains(page.String(), words) {
			t.Errorf("the page does not say %q", words)
		}
	}
	for _, words := range []string{"Ranking", "rank", "Judge", "judge", "verdict", "andidate"} {
		if strings.Contains(text.String(), words) {
			t.Errorf("the text speaks of %q, which there is none of:\n%s", words, text.String())
		}
	}
	for _, words := range []string{`id="ranking"`, `href="#ranking"`, `id="judges"`, `href="#judges"`, "<r2>"} {
		if strings.Contains(page.String(), words) {
			t.Errorf("the page has %q", words)
		}
	}
	for _, words := range []string{`href="#listed"`, "&lt;r2&gt;", "ungrounded", `{&#34;reasoning_effort&#34;:&#34;low&#34;}`} {
		if !strings.Contains(page.String(), words) {
			t.Errorf("the page lacks %q", words)
		}
	}
}

// The text and the page say of each listed run what came of it, also of one without a
// result.
func TestReportOfEachListedRun(t *testing.T) {
	t.Parallel()
	lines := func(m *memory) string {
		var text, page strings.Builder
		r := built(t, m, Options{})
		if err := errors.Join(r.WriteText(&text, TextOptions{}), r.WriteHTML(&page)); err != nil {
			t.Fatal(err)
		}
		_, table, _ := strings.Cut(page.String(), `aria-label="each listed run"`)
		table, _, _ = strings.Cut(table, "</table>")
		_, more, _ := strings.Cut(table, "Result of each run; ")
		more, _, cut := strings.Cut(more, "</caption>")
		_, table, _ = strings.Cut(table, "<tbody>")
		shown := strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(table, " ")), " ")
		if cut {
			shown += " " + more + "."
		}
		_, after, _ := strings.Cut(text.String(), "Each run\n")
		section, _, _ := strings.Cut(after, "\n\n")
		var words []string
		for line := range strings.Lines(section) {
			words = append(words, strings.Join(strings.Fields(line), " "))
		}
		lines := strings.Join(words[1:], "\n")
		if want := strings.ReplaceAll(lines, "\n", " "); shown != want {
			t.Errorf("the page says\n%s\nwant what the text says:\n%s", shown, want)
		}
		return lines
	}
	m := listedSource()
	want := "r1 openai:gpt-5-mini succeeded 1 1.5 s $0.50\nr2 google:gemini failed: ungrounded 1 1.5 s $0.25\n" +
		"r3 openai:gpt-5-mini succeeded 1 1.5 s $0.50\nr4 google:gemini no result"
	if got := lines(m); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	m.evaluation.Cancelled = m.evaluation.Created
	if got, want := lines(m), strings.Replace(want, "no result", "cancelled", 1); got != want {
		t.Errorf("of a cancelled evaluation: got\n%s\nwant\n%s", got, want)
	}
	m = listedSource()
	m.counts[0].Runs = 2 // --limit
	if got := lines(m); strings.Contains(got, "r3") || !strings.Contains(got, "r2") {
		t.Errorf("with a limit of 2: got\n%s", got)
	}
	m = listedSource()
	for i := range 100 {
		m.evaluation.Plan.Runs.List = append(m.evaluation.Plan.Runs.List, eval.FileRun{ID: fmt.Sprint("more", i)})
	}
	m.counts[0].Runs = 104
	if got := lines(m); strings.Count(got, "\n") != shownListed || !strings.HasSuffix(got, "54 more runs in manifest.json.") {
		t.Errorf("of 104 runs: got\n%s", got)
	}
}

// One run is spoken of as one.
func TestOneOfOne(t *testing.T) {
	t.Parallel()
	e := plan(nil, nil)
	e.Judges, e.Pairwise = nil, nil
	e.Runs = &eval.Runs{Models: []eval.Judge{{Name: "m", Provider: "p", Model: "m"}}, List: []eval.FileRun{{ID: "run1"}}, Files: []eval.Document{{ID: "a.md"}}}
	m := sourceOf(e)
	m.counts = []results.PhaseCounts{{Kind: eval.KindRuns, Runs: 1, Failed: 1}}
	notes := built(t, m, Options{}).Notes()
	if want := []string{"1 of 1 run failed and has no answer."}; !slices.Equal(notes, want) {
		t.Errorf("got %q, want %q", notes, want)
	}
}
