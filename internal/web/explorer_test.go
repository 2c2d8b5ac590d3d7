package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/providers"
)

// storeKinds maps the kinds of results stores to functions that return a location without a store.
var storeKinds = map[string]func(testing.TB) string{
	"sqlite": func(t testing.TB) string { return filepath.Join(t.TempDir(), "results.db") },
}

// longReason is folded, and whole on the run's page.
var longReason = "It begins well. " + strings.Repeat("It goes on and on. ", 520) + "It ends."

// compared is an evaluation of three documents, in both orders, by two judges: of
// pair 0 they say all that can be said, of pair 1 half is recorded, of pair 2 one run,
// which failed.
func compared() (results.Evaluation, map[string]string, []record.Entry) {
	asked, texts := question(hostile)
	asked.Judges = append(asked.Judges, eval.Judge{Name: "second", Provider: "p", Model: "n"})
	asked.Normalize()
	e := results.Evaluation{ID: asked.ID(), Plan: asked, Phases: []record.Phase{{Kind: eval.KindPairwise, Runs: 12}}, Created: time.Unix(1e9, 0)}
	documents := []string{asked.Documents[0].ID, asked.Documents[1].ID, asked.Documents[2].ID}
	pairs := [][2]int{{0, 1}, {0, 2}, {1, 2}}
	var entries []record.Entry
	// By index: ((pair·2 + order)·1 + trial)·2 + judge. 1: the first of the pair.
	for index, winner := range map[int]int{0: 1, 2: 1, 1: 1, 3: 2, 4: 0, 5: 2, 8: -1} {
		first, second := pairs[index/4][0], pairs[index/4][1]
		shown := []string{documents[first], documents[second]}
		r := &record.Run{
			Index: index, Kind: eval.KindPairwise, State: "succeeded", Queue: "p", Judge: "p:m", Model: "p:m", AnsweredBy: "p:m",
			Documents: shown, Candidates: []string{fmt.Sprint(first), fmt.Sprint(second)}, Trial: 1, Attempts: 1, Worker: "w",
			Started: time.Unix(int64(2000+index), 0), Ended: time.Unix(int64(2001+index), 0),
		}
		if index%2 == 1 {
			r.Judge, r.Model, r.AnsweredBy = "second", "p:n", "p:other"
		}
		switch winner {
		case -1:
			r.State, r.AnsweredBy, r.Class, r.Error = "failed", "", providers.Malformed, hostile
		case 0:
			r.Winner, r.Reason = eval.Tie, longReason
		default:
			r.Winner, r.Reason = shown[winner-1], fmt.Sprintf("Reason %d. %s", index, hostile)
		}
		if index/2%2 == 1 {
			slices.Reverse(r.Documents)
			slices.Reverse(r.Candidates)
		}
		entries = append(entries, record.Entry{Run: r, Calls: []record.Call{{
			ID: fmt.Sprintf("0.%d.0-w-1", index), Index: index, Stage: "verdict", Model: "p:m", Attempt: 1, Asked: r.Started, Started: r.Started,
			Ended: r.Ended, Status: 200, Text: "The raw answer: " + hostile, Finish: "stop", Worker: "w", Reasoning: "Thought " + hostile,
			Grounding: &providers.Grounding{Searches: 1, Queries: []string{hostile}, Sources: []providers.Source{{URL: "javascript:alert(1)", Title: hostile}}},
		}}})
	}
	return e, texts, entries
}

// explored serves an evaluation's pages from a results store of its own.
func explored(t *testing.T, at string, e results.Evaluation, texts map[string]string, entries []record.Entry) *site {
	t.Helper()
	db, err := results.Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(db.PutEvaluation(t.Context(), e, maps.All(texts)), db.Append(t.Context(), e.ID, entries), db.Close())
	if err != nil {
		t.Fatal(err)
	}
	open := func(ctx context.Context) (results.Reader, error) { return results.OpenReadOnly(ctx, at) }
	cfg := Config{
		Folder:  &Folder{Open: open, Status: func(results.Listed) record.Status { return "interrupted" }},
		Results: func(ctx context.Context, _ eval.ID) (results.Reader, error) { return open(ctx) },
		Log:     zerolog.Nop(),
	}
	s := &site{t: t, done: e.ID, server: httptest.NewServer(New(cfg))}
	t.Cleanup(s.server.Close)
	return s
}

// read decodes a page's twin.
func read[T any](s *site, path string) (of T) {
	s.t.Helper()
	got, text := s.ask(http.MethodGet, "/api/evaluations/"+string(s.done)+path)
	if err := json.Unmarshal([]byte(text), &of); err != nil || got.code != http.StatusOK {
		s.t.Fatalf("%s answers %d: %v\n%s", path, got.code, err, text)
	}
	return of
}

func TestExplorer(t *testing.T) {
	t.Parallel()
	for kind, newURL := range storeKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			e, texts, entries := compared()
			s := explored(t, newURL(t), e, texts, entries)
			t.Run("filters", func(t *testing.T) { testFilters(t, s, entries) })
			t.Run("paging", func(t *testing.T) { testPaging(t, s) })
			t.Run("pairs", func(t *testing.T) { testPairs(t, s) })
			t.Run("pages", func(t *testing.T) { testExplorerPages(t, s) })
			t.Run("sizes of files", func(t *testing.T) { testFileSizes(t, s) })
			t.Run("refusals", func(t *testing.T) { testRefusals(t, s) })
		})
	}
}

// Every parameter means what its name says.
func testFilters(t *testing.T, s *site, entries []record.Entry) {
	d1 := "1" + hostile
	for _, c := range []struct {
		name, value string
		fits        func(r *record.Run) bool
	}{
		{"kind", "", func(*record.Run) bool { return true }},
		{"phase", "0", func(*record.Run) bool { return true }},
		{"phase", "1", func(*record.Run) bool { return false }},
		{"kind", "pairwise", func(*record.Run) bool { return true }},
		{"kind", "single", func(*record.Run) bool { return false }},
		{"state", "failed", func(r *record.Run) bool { return r.State == "failed" }},
		{"state", "succeeded", func(r *record.Run) bool { return r.State == "succeeded" }},
		{"class", "malformed", func(r *record.Run) bool { return r.State == "failed" }},
		{"judge", "second", func(r *record.Run) bool { return r.Judge == "second" }},
		{"model", "p:n", func(r *record.Run) bool { return r.Judge == "second" }},
		{"model", "p:other", func(r *record.Run) bool { return r.AnsweredBy == "p:other" }},
		{"item", "none", func(*record.Run) bool { return false }},
		{"candidate", "1", func(r *record.Run) bool { return slices.Contains(r.Candidates, "1") }},
		{"document", d1, func(r *record.Run) bool { return slices.Contains(r.Documents, d1) }},
		{"order", "reverse", func(r *record.Run) bool { return r.Documents[0] > r.Documents[1] }},
		{"order", "forward", func(r *record.Run) bool { return r.Documents[0] < r.Documents[1] }},
		{"trial", "1", func(*record.Run) bool { return true }},
		{"trial", "2", func(*record.Run) bool { return false }},
		{"winner", "tie", func(r *record.Run) bool { return r.Winner == eval.Tie }},
		{"winner", "1", func(r *record.Run) bool { return r.Winner == d1 }},
		{"text", "GOES on", func(r *record.Run) bool { return r.Reason == longReason }},
		{"sort", "newest", func(*record.Run) bool { return true }},
	} {
		var want, got []string
		for _, entry := range entries {
			if c.fits(entry.Run) {
				want = append(want, entry.Run.RunID("").Short())
			}
		}
		found := read[Results](s, "/results?"+url.Values{c.name: {c.value}, "n": {"200"}}.Encode())
		for _, r := range found.Runs {
			got = append(got, r.ID)
		}
		slices.Sort(want)
		if c.value == "newest" {
			slices.Reverse(want)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s=%s (-want +got):\n%s", c.name, c.value, diff)
		}
		if found.Count == nil || found.Count.Runs != len(want) || !found.Count.Exact {
			t.Errorf("%s=%s: counts %+v, want %d", c.name, c.value, found.Count, len(want))
		}
	}
}

// Following the pages visits every run once, in order.
func testPaging(t *testing.T, s *site) {
	for sort, want := range map[string][]string{
		"plan":   {"0.0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.8"},
		"newest": {"0.8", "0.5", "0.4", "0.3", "0.2", "0.1", "0.0"},
	} {
		var got []string
		for after, n := "", 0; n < 10; n++ {
			page := read[Results](s, "/results?"+url.Values{"n": {"3"}, "sort": {sort}, "after": {after}}.Encode())
			for _, r := range page.Runs {
				got = append(got, r.ID)
			}
			if (page.Count != nil) != (after == "") || page.Count != nil && *page.Count != (Count{7, true}) {
				t.Errorf("%s: the page after %q counts %+v, want 7 on the first alone", sort, after, page.Count)
			}
			if after = page.Next; after == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sort, diff)
		}
	}
	_, text := s.ask(http.MethodGet, "/evaluations/"+string(s.done)+"/results?n=3&judge=p:m")
	if !strings.Contains(text, `href="/evaluations/`+string(s.done)+`/results?after=0.4&amp;judge=p%3Am&amp;n=3" rel="next"`) {
		t.Errorf("the page does not lead to the next:\n%s", text)
	}
}

// A pair's verdicts are side by side: both orders and every judge.
func testPairs(t *testing.T, s *site) {
	type row struct{ judge, forward, reverse, agrees string }
	type pair struct {
		documents [2]string
		wins      [2]int
		ties      int
		both      [2]int // consistent, of
		recorded  int
		rows      []row
	}
	pairsOf := func(all []Pair) (got []pair) {
		id := func(r *Result) string {
			if r == nil {
				return ""
			}
			return r.ID
		}
		for _, p := range all {
			of := pair{[2]string{p.Documents[0][:1], p.Documents[1][:1]}, p.Wins, p.Ties, [2]int{p.Consistent, p.Both}, p.Recorded, nil}
			for _, r := range p.Rows {
				of.rows = append(of.rows, row{r.Judge, id(r.Forward), id(r.Reverse), r.Agrees})
			}
			got = append(got, of)
		}
		return got
	}
	want := []pair{
		{[2]string{"0", "1"}, [2]int{3, 1}, 0, [2]int{1, 2}, 4, []row{{"p:m", "0.0", "0.2", "the same"}, {"second", "0.1", "0.3", "always the first shown"}}},
		{[2]string{"0", "2"}, [2]int{0, 1}, 1, [2]int{}, 2, []row{{"p:m", "0.4", "", ""}, {"second", "0.5", "", ""}}},
		{[2]string{"1", "2"}, [2]int{}, 0, [2]int{}, 1, []row{{"p:m", "0.8", "", ""}}},
	}
	same := cmp.AllowUnexported(pair{}, row{})
	if diff := cmp.Diff(want, pairsOf(read[Pairs](s, "/pairs").Pairs), same); diff != "" {
		t.Errorf("pairs (-want +got):\n%s", diff)
	}
	var leafed []pair
	for after := ""; ; {
		page := read[Pairs](s, "/pairs?n=1&after="+after)
		if leafed = append(leafed, pairsOf(page.Pairs)...); page.Next == "" {
			break
		}
		after = page.Next
	}
	if diff := cmp.Diff(want, leafed, same); diff != "" {
		t.Errorf("one pair a page (-want +got):\n%s", diff)
	}
	two := url.Values{"document": {"2" + hostile, "0" + hostile}}.Encode()
	if diff := cmp.Diff(want[1:2], pairsOf(read[Pairs](s, "/pairs?"+two).Pairs), same); diff != "" {
		t.Errorf("the pair of two documents (-want +got):\n%s", diff)
	}
	_, text := s.ask(http.MethodGet, "/evaluations/"+string(s.done)+"/pairs")
	for _, words := range []string{"the same in both orders: <b>1</b> of 2", "always the first shown", "4 of 4 runs", `/runs/0.3">0.3</a>`} {
		if !strings.Contains(text, words) {
			t.Errorf("the page of pairs does not say %q:\n%.5000s", words, text)
		}
	}
}

// Files are listed with the sizes that they have when they are downloaded.
func testFileSizes(t *testing.T, s *site) {
	of := "/evaluations/" + string(s.done) + "/files"
	var page Files
	if got, text := s.ask(http.MethodGet, "/api"+of); got.code != http.StatusOK || json.Unmarshal([]byte(text), &page) != nil {
		t.Fatalf("%d: %s", got.code, text)
	}
	_, html := s.ask(http.MethodGet, of)
	measured := 0
	for _, name := range page.Files {
		got, text := s.ask(http.MethodGet, "/api"+of+"/"+name)
		size, known := page.Sizes[name]
		if known != (got.code == http.StatusOK) || known && size != int64(len(text)) || !strings.Contains(html, page.Size(name)) {
			t.Errorf("%s: %d bytes, listed with %d (%t)", name, len(text), size, known)
		}
		measured += len(page.Size(name))
	}
	if measured == 0 {
		t.Error("no file has a size")
	}
}

func testExplorerPages(t *testing.T, s *site) {
	of := "/evaluations/" + string(s.done)
	for path, want := range map[string][]string{
		of:            {of + "/results", of + "/pairs", of + "/files"},
		of + "/files": {"/api" + of + "/files/pairwise_results.csv\"", "/api" + of + "/files/report.html\"", "/api" + of + "/files/manifest.json\""},
		"/api" + of + "/files/pairwise_results.csv":   {"id,doc_id_1,doc_id_2,model,", "\nr0-0,"},
		"/api" + of + "/files/pairwise_results.jsonl": {`{"id":"r0-0",`},
		"/api" + of + "/files/verdicts.csv":           {"id,item,candidate_1,", "\nr0-0,"},
		"/api" + of + "/files/ranking.csv":            {"candidate,", "\n"},
		"/api" + of + "/files/manifest.json":          {string(s.done)},
		"/api" + of + "/files/report.md":              {"# "},
		of + "/results":                               {"7 recorded runs", of + "/runs/0.0", "wins", "tie", "malformed", "&lt;script&gt;", "<summary>It begins well.", "by p:other"},
		of + "/results?state=failed":                  {"1 recorded run<", ` open>`, "<option selected>failed"},
		of + "/results?winner=nobody":                 {"No recorded run matches."},
		of + "/runs/0.0":                              {"shown first", "winner", "text 0", "text 1", "Rebuilt from the plan", "Call 1: verdict of p:m, attempt 1", "status 200", "The raw answer: &lt;script&gt;", "javascript:alert(1)", of + "/pairs?document="},
		of + "/runs/0.4":                              {"It ends."},
		of + "/runs/0.8":                              {"malformed: &lt;script&gt;"},
		of + "/runs/0.11":                             {"not ended", "No call has been recorded."},
		"/api" + of + "/runs/0.0":                     {`"outcome"`, `"recorded_in": "sink"`, `"prompt"`},
		"/api" + of + "/results?n=1":                  {`"next": "0.0"`, `"order": "forward"`},
		of + "/results?sort=newest":                   {"newest first", "as planned</a>"},
		of + "/pairs?candidate=nobody":                {"No pair with a recorded run matches."},
	} {
		got, text := s.ask(http.MethodGet, path)
		for _, words := range want {
			if got.code != http.StatusOK || !strings.Contains(text, words) {
				t.Errorf("%s answers %d without %q:\n%.6000s", path, got.code, words, text)
			}
		}
		if strings.HasPrefix(path, "/api") {
			continue
		}
		if strings.Contains(text, "<script>alert") || strings.Contains(text, "<img") || strings.Contains(text, "\u202e") || strings.Contains(text, `href="javascript`) {
			t.Errorf("%s carries what was recorded as it is:\n%s", path, text)
		}
		if policy := got.header.Get("Content-Security-Policy"); policy != pagePolicy {
			t.Errorf("%s has the policy %q", path, policy)
		}
	}
	if _, text := s.ask(http.MethodGet, of+"/results"); strings.Contains(text, "It ends.") || len(text) > 40_000 {
		t.Errorf("a list shows long texts whole: %d bytes", len(text))
	}
}

func testRefusals(t *testing.T, s *site) {
	of := "/evaluations/" + string(s.done)
	for path, want := range map[string]struct {
		code  int
		words string
	}{
		of + "/results?state=lost":                          {400, "want succeeded, failed or cancelled"},
		of + "/results?kind=pair":                           {400, "want single, pairwise, panel, runs or prompts"},
		of + "/results?phase=-1":                            {400, "phase: got &#34;-1&#34;, want the number of a phase"},
		of + "/results?trial=x":                             {400, "from 1"},
		of + "/results?order=both":                          {400, "want forward or reverse"},
		of + "/results?sort=oldest":                         {400, "want plan or newest"},
		of + "/results?n=201":                               {400, "want 1 to 200"},
		of + "/results?n=0":                                 {400, "want 1 to 200"},
		of + "/results?after=2":                             {400, "want the value of next"},
		of + "/results?after=0.1&sort=newest":               {400, "want the value of next"},
		of + "/results?after=2026-01-02T03:04:05Z_0.1":      {400, "want the value of next"},
		of + "/results?judge=nobody":                        {400, "unknown judge &#34;nobody&#34;; want one of p:m, second"},
		of + "/results?state=failed&state=failed":           {400, "more than once"},
		of + "/results?document=a&document=b&document=c":    {400, "at most two"},
		of + "/results?text=" + strings.Repeat("x", 501):    {400, "want at most 500"},
		of + "/results?offset=3":                            {400, "unknown parameter &#34;offset&#34;"},
		of + "/results?text=%zz":                            {400, "invalid after the question mark"},
		of + "/pairs?winner=tie":                            {400, "unknown parameter"},
		of + "/files/report.pdf":                            {404, ""},
		"/api" + of + "/files/report.pdf":                   {404, "lists them"},
		"/api" + of + "/files/..%2f..%2fresults.db":         {404, "lists them"},
		"/api/evaluations/ev-aaaaaaaaaaaa/files":            {404, "no result of an evaluation with this id"},
		of + "/runs/x":                                      {400, "want &lt;phase&gt;.&lt;index&gt;"},
		of + "/runs/0.12":                                   {404, "has no run 0.12"},
		of + "/runs/3.0":                                    {404, "has no phase 3"},
		"/evaluations/ev-aaaaaaaaaaaa/results":              {404, "no result of an evaluation with this id"},
		"/evaluations/ev-aaaaaaaaaaaa/pairs":                {404, "no result of an evaluation with this id"},
		"/evaluations/ev-aaaaaaaaaaaa/runs/0.0":             {404, "no evaluation has this id"},
		"/api/evaluations/ev-aaaaaaaaaaaa/runs/0.0":         {404, "no evaluation has this id"},
		"/api/evaluations/" + string(s.done) + "/runs/0.12": {404, "has no run 0.12"},
		"/api" + of + "/results?n=x":                        {400, "want 1 to 200"},
	} {
		if got, text := s.ask(http.MethodGet, path); got.code != want.code || !strings.Contains(text, want.words) {
			t.Errorf("%s answers %d without %q:\n%s", path, got.code, want.words, text)
		}
	}
}

// Where results are elsewhere, no page of them is found; a store that does not answer is another
// matter.
func TestResultsElsewhere(t *testing.T) {
	t.Parallel()
	var failure atomic.Value
	s := newSite(t, func(cfg *Config) {
		cfg.Results = func(context.Context, eval.ID) (results.Reader, error) { return nil, failure.Load().(error) }
	})
	of := "/evaluations/" + string(s.done)
	for _, c := range []struct {
		err  error
		code int
	}{
		{fmt.Errorf("%w: in a store that was not named", ErrNotHere), http.StatusNotFound},
		{fmt.Errorf("open x: %w", results.ErrNoStore), http.StatusNotFound},
		{fmt.Errorf("open x: %w", io.ErrUnexpectedEOF), http.StatusServiceUnavailable},
	} {
		failure.Store(fmt.Errorf("%w", c.err)) // of one type
		for _, path := range []string{of + "/report", of + "/results", of + "/pairs", of + "/files", "/api" + of + "/results", "/api" + of + "/pairs", "/api" + of + "/files", "/api" + of + "/files/report.html"} {
			if got, text := s.ask(http.MethodGet, path); got.code != c.code || !strings.Contains(text, "results") {
				t.Errorf("%v: %s answers %d, want %d:\n%.2000s", c.err, path, got.code, c.code, text)
			}
		}
		if got, text := s.ask(http.MethodGet, of); got.code != http.StatusOK || strings.Contains(text, `href="`+of+`/files"`) {
			t.Errorf("%v: the evaluation's page answers %d, or links to what is not here", c.err, got.code)
		}
	}
}

// A run of a fleet is shown also while its outcome waits to be collected, and before
// it has one; and a list says what it lacks.
func TestExplorerOfFleet(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(cfg *Config) {
		cfg.Results = func(context.Context, eval.ID) (results.Reader, error) {
			return nil, errors.New("no such file; run `evalfleet collect ev-x` to get its results here")
		}
	})
	for path, want := range map[string]struct {
		code  int
		words []string
	}{
		"/evaluations/" + string(s.done) + "/runs/0.1":     {200, []string{"waits in Redis to be collected", "Call 1: verdict of p:m", "text 0"}},
		"/evaluations/" + string(s.idle) + "/runs/0.1":     {200, []string{"not ended", "pending", "text 0", `href="/queues/p/pending"`}},
		"/evaluations/" + string(s.done) + "/results":      {503, []string{"the results are not readable from here: no such file", "evalfleet collect"}},
		"/evaluations/" + string(s.done) + "/pairs":        {503, []string{"evalfleet collect"}},
		"/evaluations/ev-aaaaaaaaaaaa/runs/0.1":            {404, []string{"no evaluation has this id"}},
		"/api/evaluations/" + string(s.idle) + "/runs/0.1": {200, []string{`"state": "none"`, `"check": "run"`}},
	} {
		got, text := s.ask(http.MethodGet, path)
		for _, words := range want.words {
			if got.code != want.code || !strings.Contains(text, words) {
				t.Errorf("%s answers %d without %q:\n%.4000s", path, got.code, words, text)
			}
		}
	}
}
