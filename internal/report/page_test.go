package report

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// withCalls makes calls of n periods, each held back by one limit more than the one
// before, and records half of what was planned of the last judge.
func (m *memory) withCalls(n int, limits ...string) *memory {
	m.timeline = results.Timeline{From: m.evaluation.Created, Width: 15 * time.Second}
	waits := make([]results.Wait, len(limits))
	for k := range n {
		period := results.Period{Begun: map[string]int{}, InFlight: float64(k) / 2, Failed: k % 2}
		for i, limit := range limits[:min(k, len(limits))] {
			period.Begun[limit] = 10 * (i + 1)
			waits[i].Limit = limit
			waits[i].Calls += 10 * (i + 1)
			waits[i].Total += time.Duration(k) * time.Second
		}
		m.timeline.Periods = append(m.timeline.Periods, period)
	}
	m.waits = waits
	e := m.evaluation.Plan
	for _, phase := range m.counts {
		asked := e.JudgesOf(phase.Kind)
		for k, judge := range asked {
			p := results.Progress{Phase: phase.Phase, Judge: judge.Name, Succeeded: phase.Runs / len(asked)}
			if k == len(asked)-1 {
				p.Succeeded /= 2
				p.Failed = 1
			}
			p.First, p.Last = m.evaluation.Created, m.evaluation.Created.Add(40*time.Minute)
			p.Used = results.Usage{Calls: p.Succeeded, Input: 1000, Output: 10, Unpriced: k}
			m.progress = append(m.progress, p)
		}
	}
	return m
}

// cells are the texts of a table's rows, by their first cell, below a heading.
func cells(t *testing.T, page, heading string) map[string]string {
	t.Helper()
	_, after, ok := strings.Cut(page, heading)
	if !ok {
		t.Fatalf("the page has no %q", heading)
	}
	table, _, _ := strings.Cut(after, "</table>")
	tags := regexp.MustCompile(`<[^>]*>`)
	rows := map[string]string{}
	for _, row := range regexp.MustCompile(`(?s)<tr.*?</tr>`).FindAllString(table, -1) {
		text := strings.Fields(tags.ReplaceAllString(strings.ReplaceAll(row, "</t", " </t"), ""))
		rows[text[0]] += strings.Join(text[1:], " ") + ";"
	}
	return rows
}

func TestPagePlannedAndRecorded(t *testing.T) {
	t.Parallel()
	m := tournament(names(4), []string{"q"}, []string{"a", "b"}, []float64{0, 0}, 2).withCalls(3, "")
	m.progress = append(m.progress, results.Progress{Used: results.Usage{Calls: 3, Unreported: 3}}) // of runs that have not ended
	page := pageOf(t, built(t, m, Options{Draws: 20}))
	if !strings.Contains(page, "Of 24 planned runs, 18 succeeded, 1 failed, 0 are cancelled and 5 are still missing.") {
		t.Error("the page does not say what is missing")
	}
	got := cells(t, page, "Runs by phase and model")
	for name, want := range map[string]string{
		"a":        "12 12 0 0 12 03:04:05 03:44:05 40 min 12 1,000 10 $0.00;",
		"b":        "12 6 1 5 12 03:04:05 03:44:05 40 min 6 1,000 10 unknown;",
		"runs":     "that have not ended 0 0 0 0 0 – – – 3 unknown unknown $0.00;",
		"together": "24 18 1 5 24 03:04:05 03:44:05 40 min 21 ≥ 2,000 ≥ 20 unknown;",
	} {
		if got[name] != want {
			t.Errorf("row %s: got %q, want %q", name, got[name], want)
		}
	}
	if strings.Contains(page, "all phases") {
		t.Error("one phase has a sum of its own, and there is one of all phases")
	}
	m.withScores("style").withCalls(3, "")
	if page := pageOf(t, built(t, m, Options{Draws: 20})); cells(t, page, "Runs by phase")["all"] == "" {
		t.Error("two phases are not summed up")
	}
}

func TestPageTimeline(t *testing.T) {
	t.Parallel()
	slots := ratelimit.Limit{Scope: ratelimit.Scope{Provider: "simulator"}, Kind: ratelimit.Concurrency, Max: 16}
	m := typical().withCalls(8, "", slots.ID(), "redis/memory", "provider/x/cooldown", "<script>1", "<script>2")
	page := pageOf(t, built(t, m, Options{Draws: 20}))
	for _, want := range []string{
		`<i class="held1"></i><bdi>provider simulator: 16 in flight</bdi>`, `<i class="held3"></i><bdi>provider x: cooldown</bdi>`,
		`<i class="more"></i><bdi>2 other limits</bdi>`, "calls started in each 15 s",
		"03:04:20: 10 calls started (10 without a wait), 0.5 in flight, 1 failed",
		"210 calls started (10 without a wait, 20 provider simulator: 16 in flight, 30 Redis after a start or loss of data, 40 provider x: cooldown, 110 2 other limits), 3.0 in flight, 0 failed",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	rows := cells(t, page, "Calls in periods of 15 s")
	if want := "03:04:20 0.5 10 10 0 0 0 0 1;"; !strings.HasPrefix(rows["01-02"], want) {
		t.Errorf("numbers of the figure: got %q, want %q first", rows["01-02"], want)
	}
	rows = cells(t, page, "What held calls back")
	if got, want := rows["provider"], "simulator: 16 in flight 120 15.6 % 27 s 225 ms;x: cooldown 160 20.8 % 22 s 138 ms;"; got != want {
		t.Errorf("what held calls back: got %q, want %q", got, want)
	}
	// Bars are stacked and end at the number of calls.
	view := built(t, m, Options{Draws: 20}).timelineView()
	chart := view.Charts[0]
	for k, period := range view.Periods {
		sum, bottom := 0.0, chart.bottom
		for _, part := range period.Parts {
			if math.Abs(part.Y+part.Height-bottom) > 0.02 {
				t.Errorf("period %d: a part ends at %g, want %g", k, part.Y+part.Height, bottom)
			}
			bottom = part.Y
			sum += part.Height
		}
		begun := 0.0
		for _, n := range m.timeline.Periods[k+1].Begun { // the first has no call, and is left out
			begun += float64(n)
		}
		if want := begun / chart.most * (chart.bottom - chart.top); math.Abs(sum-want) > 0.05 {
			t.Errorf("period %d: bars of %g for %g calls, want %g", k, sum, begun, want)
		}
	}
}

func TestPageFallback(t *testing.T) {
	t.Parallel()
	m := typical()
	if page := pageOf(t, built(t, m, Options{Draws: 20})); strings.Contains(page, `id="fallback"`) {
		t.Error("the page speaks of fallback, which is not set and did not happen")
	}
	how := record.DefaultFallback
	how.Models = []string{"other:<model>"}
	m.evaluation.Settings.Fallback = &how
	m.statistics = results.Statistics{Total: 200, Primary: 150, Fallback: 50, RateLimitFallbacks: 50, RateLimitWaits: 70, Waited: 40}
	page := pageOf(t, built(t, m, Options{Draws: 20}))
	rows := cells(t, page, "Finished runs that needed a model; models: other:&lt;model&gt;; longest single wait: 5 min")
	if got, want := rows["answered"], "by the run&#39;s own model 150 75.0 %;by another model 50 25.0 %;"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !strings.Contains(page, `<p class="advice">25 % of the runs were answered by fallback models`) || strings.Contains(page, "No setting needs to change") {
		t.Error("the page lacks the advice, or says that none is needed")
	}
	m.statistics = results.Statistics{Total: 200, Primary: 200}
	if page := pageOf(t, built(t, m, Options{Draws: 20})); !strings.Contains(page, "No setting needs to change") {
		t.Error("the page does not say that fallback is as it should be")
	}
}

// TestPageFigures: each figure says in words what it shows, and its numbers are in a
// table; no number of the page is none, and no reference leads nowhere.
func TestPageFigures(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]*memory{
		"typical":   typical().withCalls(8, "", "fleet/concurrency"),
		"one call":  tournament(names(2), []string{"q"}, []string{"a"}, []float64{0}, 2).withCalls(1, ""),
		"no calls":  sourceOf(plan([]string{"a", "b"}, []string{"q"}, "j")),
		"by scores": sourceOf(plan([]string{"a", "b"}, []string{"q"}, "j", "k")).withScores("style"),
	} {
		page := pageOf(t, built(t, m, Options{Draws: 20}))
		figures := regexp.MustCompile(`(?s)<figure>.*?</figure>`).FindAllString(page, -1)
		if name == "typical" && len(figures) != 6 {
			t.Errorf("%d figures, want those of the ranking, scores, lengths, both orders, the order effect and the calls", len(figures))
		}
		for _, figure := range figures {
			if !regexp.MustCompile(`<svg [^>]*role="img" aria-label="[^"]{40,}The tables? below ha(ve|s) every number\."`).MatchString(figure) {
				t.Errorf("%s: a figure without its text: %.300s", name, figure)
			}
		}
		if none := regexp.MustCompile(`NaN|[-+>" ]Inf\b|%!`).FindString(page); none != "" {
			t.Errorf("%s: the page contains %q", name, none)
		}
		ids := map[string]bool{}
		for _, id := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			if ids[id[1]] {
				t.Errorf("%s: two elements are called %s", name, id[1])
			}
			ids[id[1]] = true
		}
		for _, link := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page, -1) {
			if !ids[link[1]] {
				t.Errorf("%s: a link leads to #%s, which is not there", name, link[1])
			}
		}
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for length, want := range map[time.Duration]string{
		0: "0 ms", 50 * time.Millisecond: "50 ms", 1500 * time.Millisecond: "1.5 s", time.Minute: "1 min", 150 * time.Second: "2.5 min",
		40 * time.Minute: "40 min", 26 * time.Hour: "1.1 d", 400 * 24 * time.Hour: "400 d",
	} {
		if got := span(length); got != want {
			t.Errorf("%v: got %q, want %q", length, got, want)
		}
	}
}

func TestPanelByCandidate(t *testing.T) {
	t.Parallel()
	e := plan(names(70), []string{"q"})
	e.Judges, e.Pairwise = nil, nil
	e.Panel = &eval.Panel{Agents: []eval.Judge{{Name: "clerk"}}, Dimensions: []eval.Dimension{{ID: "clarity"}, {ID: "depth"}}, Scale: eval.Scale{Min: 1, Max: 5}}
	m := sourceOf(e)
	for k, name := range names(70) {
		score := 1 + float64(k)/20
		m.panel = append(m.panel, results.PanelRow{Document: "q/" + name, Candidate: name, Agent: "clerk", Dimension: "depth", Score: &score})
		if k == 69 {
			low := 1.
			m.panel = append(m.panel, results.PanelRow{Document: "q/" + name, Candidate: name, Agent: "clerk", Dimension: "clarity", Score: &low})
		}
	}
	page := pageOf(t, built(t, m, Options{Draws: 20}))
	rows := cells(t, page, "Candidates, the highest mean first")
	for name, want := range map[string]string{
		"candidate-0068": "– 4.40 4.40;", "candidate-0069": "1.00 4.45 2.73;", "candidate-0009": "",
	} {
		if rows[name] != want {
			t.Errorf("%s: got %q, want %q", name, rows[name], want)
		}
	}
	if !strings.Contains(page, fmt.Sprintf("%d more candidates are in panel_results.csv", 70-openRows)) {
		t.Error("the page does not say what it leaves out")
	}
	if strings.Contains(page, "nothing to rank") {
		t.Error("the page speaks of a ranking that was not asked")
	}
}

func TestPagePeople(t *testing.T) {
	t.Parallel()
	m := tournament([]string{"a", "b"}, []string{"q1", "q2"}, []string{"j", "k"}, []float64{0, 0}, 9)
	for _, who := range []string{"ann", "<bob>"} {
		m.vote(who, "q1/a", "q1/b", "q1/a")
		m.vote(who, "q2/a", "q2/b", "q2/a")
	}
	m.vote("<bob>", "q2/a", "q2/b", "q2/b") // said twice, differently
	page := pageOf(t, built(t, m, Options{Draws: 20}))
	if !strings.Contains(page, `<a href="#people">People</a>`) || !strings.Contains(page, "5 votes on 2 pairs of texts") {
		t.Error("the page does not say how many votes there are")
	}
	if got := cells(t, page, "What each annotator said"); got["ann"] != "2 0;" || got["&lt;bob&gt;"] != "3 0;" {
		t.Errorf("annotators: %q", got)
	}
	against := cells(t, page, "Judges against the majority of people")
	if len(strings.Fields(against["j"])) != 12 || len(against) != 3 {
		t.Errorf("judges against people: %q", against)
	}
	// A judge and an annotator at a time: neither two judges nor two annotators.
	pairs := cells(t, page, "A judge and an annotator at a time")
	for judge, want := range map[string]string{
		"j": "ann 2 100.0 % &#43;1.00;&lt;bob&gt; 2 75.0 % &#43;0.50 (−1.00 … &#43;1.00);",
		"k": "ann 2 75.0 % &#43;0.60 (−1.00 … &#43;1.00);&lt;bob&gt; 2 62.5 % &#43;0.40 (−1.00 … &#43;1.00);",
	} {
		if got := pairs[judge]; got != want {
			t.Errorf("judge %s with annotators: %q, want %q", judge, got, want)
		}
	}
	if pairs["ann"] != "" {
		t.Errorf("two annotators: %q", pairs["ann"])
	}
}

// TestNumbersAsPeopleWriteThem: no number of a page has an exponent, and a scale of calls has no thousandths of a call,
// however long or short an evaluation was.
func TestNumbersAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]float64{"tiny": 1e-9, "huge": 1e13} {
		m := typical().withCalls(8, "")
		for k := range m.timeline.Periods {
			m.timeline.Periods[k].InFlight = 0.002
		}
		for k := range m.progress {
			m.progress[k].Used = results.Usage{Calls: 1, Input: int64(size), Output: int64(size), CostUSD: size}
		}
		for k := range m.calls {
			m.calls[k].Usage = results.Usage{Calls: 1, Input: int64(size), Output: int64(size), CostUSD: size}
		}
		page := strings.Replace(pageOf(t, built(t, m, Options{Draws: 20})), pageScript, "", 1)
		if found := regexp.MustCompile(`[^#\w][\d.]+e[-+]\d+`).FindString(page); found != "" {
			t.Errorf("%s: the page contains %q", name, found)
		}
		if found := regexp.MustCompile(`>0\.0\d*</text>`).FindString(page); found != "" {
			t.Errorf("%s: a scale has a label %q", name, found)
		}
	}
}
