package given

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
)

// file writes a file of verdicts, and returns its path.
func file(t *testing.T, name string, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// stored reads files and stores their verdicts.
func stored(t *testing.T, o Options, paths ...string) (results.Store, *Verdicts) {
	t.Helper()
	v, err := Read(paths, o)
	if err != nil {
		t.Fatal(err)
	}
	db, err := results.Open(t.Context(), filepath.Join(t.TempDir(), "results.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := v.Store(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return db, v
}

// reported ranks the verdicts in files.
func reported(t *testing.T, o Options, how report.Options, paths ...string) *report.Report {
	t.Helper()
	db, v := stored(t, o, paths...)
	r, err := report.Build(t.Context(), db, v.Evaluation.ID(), how)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// abilities returns the abilities of the only ranking, relative to one candidate.
func abilities(t *testing.T, r *report.Report, zero string) map[string]float64 {
	t.Helper()
	if len(r.Groups) != 1 {
		t.Fatalf("%d rankings, want one", len(r.Groups))
	}
	all := map[string]float64{}
	for _, c := range r.Groups[0].Ranked {
		all[c.Name] = c.Ability
	}
	base, ok := all[zero]
	if !ok {
		t.Fatalf("no candidate %s in %v", zero, all)
	}
	delete(all, zero)
	for name := range all {
		all[name] -= base
	}
	return all
}

func wantNear(t *testing.T, got, want map[string]float64) {
	t.Helper()
	for name, value := range want {
		if math.Abs(got[name]-value) > 1e-6 {
			t.Errorf("%s has ability %.7f, want %.7f", name, got[name], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d candidates %v, want %d", len(got), got, len(want))
	}
}

// battles writes a table of counts as battles, one verdict a line.
func battles(t *testing.T, counts []count) string {
	t.Helper()
	lines := []string{"model_a,model_b,winner"}
	for _, c := range counts {
		for outcome, n := range map[string]int{"model_a": c.wins, "model_b": c.losses, "tie": c.ties} {
			for range n {
				lines = append(lines, c.first+","+c.second+","+outcome)
			}
		}
	}
	return file(t, "battles.csv", lines...)
}

type count struct {
	first, second      string
	wins, losses, ties int
}

// Published rankings come out of files of battles: citations among journals of statistics (Stigler 1994; Agresti 2002,
// p. 448), and the human majority of PandaLM's test set with ties by Davidson's model.
func TestPublishedRankings(t *testing.T) {
	t.Parallel()
	citations := battles(t, []count{
		{"Biometrika", "Comm Statist", 730, 33, 0}, {"Biometrika", "JASA", 498, 320, 0}, {"Biometrika", "JRSS-B", 221, 284, 0},
		{"Comm Statist", "JASA", 68, 813, 0}, {"Comm Statist", "JRSS-B", 17, 276, 0}, {"JASA", "JRSS-B", 142, 325, 0},
	})
	wantNear(t, abilities(t, reported(t, Options{}, report.Options{}, citations), "Biometrika"), map[string]float64{
		"Comm Statist": -2.9490724968, "JASA": -0.4795697698, "JRSS-B": 0.2689540558,
	})

	pandalm := battles(t, []count{
		{"bloom-7b", "cerebras-gpt-6.7B", 59, 30, 11}, {"bloom-7b", "llama-7b", 28, 72, 11}, {"bloom-7b", "opt-7b", 43, 35, 11},
		{"bloom-7b", "pythia-6.9b", 47, 49, 11}, {"cerebras-gpt-6.7B", "llama-7b", 24, 80, 6}, {"cerebras-gpt-6.7B", "opt-7b", 33, 49, 9},
		{"cerebras-gpt-6.7B", "pythia-6.9b", 27, 53, 11}, {"llama-7b", "opt-7b", 71, 24, 11}, {"llama-7b", "pythia-6.9b", 58, 27, 9},
		{"opt-7b", "pythia-6.9b", 32, 53, 15},
	})
	wantNear(t, abilities(t, reported(t, Options{}, report.Options{}, pandalm), "bloom-7b"), map[string]float64{
		"cerebras-gpt-6.7B": -0.5858635528, "llama-7b": 0.8396988954, "opt-7b": -0.2537487681, "pythia-6.9b": 0.1035502279,
	})
}

// The home effect of baseball (Agresti 2002, p. 438) has the form of a preference for the text shown first. It is
// estimated if the order is known, and not otherwise.
func TestOrderKnownAndUnknown(t *testing.T) {
	t.Parallel()
	teams := []string{"Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore"}
	wins := [][]int{ // at home, in the order of teams
		{4, 3, 4, 2, 4, 3, 6, 1, 4, 2, 6, 0}, {3, 3, 4, 2, 4, 3, 6, 0, 6, 1, 4, 3}, {2, 5, 4, 3, 2, 4, 4, 3, 4, 2, 6, 0}, {3, 3, 5, 1, 2, 5, 4, 3, 4, 2, 6, 1},
		{5, 1, 2, 5, 3, 3, 4, 2, 5, 2, 6, 0}, {2, 5, 3, 3, 3, 4, 4, 3, 4, 2, 2, 4}, {2, 5, 1, 5, 1, 6, 2, 4, 1, 6, 3, 4},
	}
	var counts []count
	for i, home := range teams {
		k := 0
		for _, away := range teams {
			if away != home {
				counts = append(counts, count{home, away, wins[i][k], wins[i][k+1], 0})
				k += 2
			}
		}
	}
	path := battles(t, counts)

	unknown := reported(t, Options{}, report.Options{}, path)
	wantNear(t, abilities(t, unknown, "Baltimore"), map[string]float64{
		"Boston": 1.1076977054, "Cleveland": 0.6838527692, "Detroit": 1.4364084318, "Milwaukee": 1.5813558767, "New York": 1.2476178451, "Toronto": 1.2944851239,
	})
	if e := unknown.Judges[0].Effect; e.HasOrder {
		t.Errorf("an order effect of %v although no order is known", e.Order)
	}
	if notes := strings.Join(unknown.Notes(), "\n"); !strings.Contains(notes, "do not say which text was shown first") {
		t.Errorf("the notes do not say that the order is unknown:\n%s", notes)
	}
	if trust := unknown.Reliance().String(); !strings.Contains(trust, "it is not known which text was shown first") {
		t.Errorf("trust is %q", trust)
	}

	shown := reported(t, Options{Order: OrderShown}, report.Options{}, path)
	wantNear(t, abilities(t, shown, "Baltimore"), map[string]float64{
		"Boston": 1.1438026533, "Cleveland": 0.7046944569, "Detroit": 1.4753572136, "Milwaukee": 1.6195549936, "New York": 1.2813404033, "Toronto": 1.3271103981,
	})
	if e := shown.Judges[0].Effect; !e.HasOrder || math.Abs(e.Order-0.3022606555) > 1e-6 {
		t.Errorf("the order effect is %+v, want 0.3022607", e)
	}
}

// Both orders of an item by a judge are one comparison, as in an evaluation: flips count, and items are the clusters.
func TestBothOrders(t *testing.T) {
	t.Parallel()
	lines := make([]string, 0, 20)
	for q := range 10 {
		second := `"B>A"` // the baseline is B
		if q < 3 {
			second = `"A>B"` // the first text, again
		}
		lines = append(lines, fmt.Sprintf(
			`{"question_id":"q%d","model":"m","judge":"j","baseline":"base","games":[{"score":"A>B"},{"score":%s}]}`, q, second))
	}
	lines = append(lines, `{"question_id":"q99","model":"m","judge":"j","baseline":"base","games":[null,{"score":"A>B"}]}`)
	lines = append(lines, `{"question_id":"q99","model":"m","judge":"j","baseline":"base","games":[{"score":"A>B"},{"score":"B>A"}]}`)
	r := reported(t, Options{}, report.Options{}, file(t, "judged.jsonl", lines...))

	if r.Evaluation.Plan.Pairwise.Order != eval.OrderBoth {
		t.Errorf("the order is %s", r.Evaluation.Plan.Pairwise.Order)
	}
	swaps := r.Judges[0].Swaps
	if swaps.Total() != 11 || swaps.AlwaysFirst != 3 || swaps.Consistent != 8 {
		t.Errorf("both orders: %+v, want 8 of 11 the same and 3 always first: a game without its other order is no pair", swaps)
	}
	if r.Intervals.By != report.ByItem || r.Intervals.Clusters != 11 {
		t.Errorf("intervals by %d clusters (%s), want 11 items", r.Intervals.Clusters, r.Intervals.By)
	}
	if r.Pairs != 11 {
		t.Errorf("%d pairs, want 11", r.Pairs)
	}
	if notes := strings.Join(r.Notes(), "\n"); !strings.Contains(notes, "judged.jsonl: 1 skipped: games without a score.") {
		t.Errorf("the notes do not name what was skipped:\n%s", notes)
	}

	rows := reported(t, Options{}, report.Options{}, file(t, "rows.csv", "model_a,model_b,winner,item", "x,y,x,1", "y,x,x,1", "x,y,y,2"))
	if rows.Evaluation.Plan.Pairwise.Order != eval.OrderBoth || rows.Judges[0].Swaps.Consistent != 1 {
		t.Errorf("rows in both orders: order %s, %+v", rows.Evaluation.Plan.Pairwise.Order, rows.Judges[0].Swaps)
	}
}

// Rows that name no question count as independent of each other. Two judges then have nothing in common.
func TestSeparateVerdicts(t *testing.T) {
	t.Parallel()
	lines := []string{"model_a,model_b,winner,judge,session"}
	for i := range 40 {
		lines = append(lines, fmt.Sprintf("x,y,%s,j%d,%d", []string{"model_a", "model_b", "model_a", "tie"}[i%4], i%2, i))
	}
	r := reported(t, Options{}, report.Options{}, file(t, "b.csv", lines...))
	if r.Intervals.By != report.ByVerdict || r.Intervals.Clusters != 40 || r.Agreement != nil {
		t.Errorf("intervals by %d clusters (%s), agreement %+v", r.Intervals.Clusters, r.Intervals.By, r.Agreement)
	}
	first := r.Groups[0].Ranked[0]
	if ratio := first.SE / first.ModelSE; ratio < 0.8 || ratio > 1.25 {
		t.Errorf("the standard error is %v, and that of independent verdicts %v", first.SE, first.ModelSE)
	}
	if notes := strings.Join(r.Notes(), "\n"); !strings.Contains(notes, "do not say which verdicts are on the same question") {
		t.Errorf("the notes do not say that verdicts count as independent:\n%s", notes)
	}
}

// Rows that name no question and repeat an earlier one in every field may be copies, so they are no further evidence: not of
// one file, of two, or with texts. A column that tells them apart makes them independent, and so does an item.
func TestCopiedRows(t *testing.T) {
	t.Parallel()
	const copies = 40
	text := `,"response_a":"yes","response_b":"no"}`
	for name, tt := range map[string]struct {
		name    string
		lines   func(k int) string
		head    string
		pairs   int // of texts with verdicts
		ahead   bool
		repeats int
	}{
		"one row":    {"a.csv", func(int) string { return "x,y,x,same" }, "model_a,model_b,winner,reason", 1, false, copies - 1},
		"three rows": {"a.csv", func(k int) string { return fmt.Sprintf("x,y,x,j%d,good", k%3) }, "model_a,model_b,winner,judge,reason", 3, false, copies - 3},
		"votes": { // nothing could tell different ones apart
			"a.csv", func(k int) string { return fmt.Sprintf("x,y,x,j%d,en", k%3) }, "model_a,model_b,winner,judge,language", copies, true, 0,
		},
		"with texts": {"a.jsonl", func(int) string { return `{"model_a":"x","model_b":"y","winner":"x"` + text }, "", 1, false, copies - 1},
		"fields in any order": {"a.jsonl", func(k int) string {
			return []string{`{"model_a":"x","model_b":"y","winner":"x","at":1}`, `{"at":1,"winner":"x","model_b":"y","model_a":"x"}`}[k%2]
		}, "", 1, false, copies - 1},
		"with a field of each": {"a.csv", func(k int) string { return fmt.Sprintf("x,y,x,%d", k) }, "model_a,model_b,winner,session", copies, true, 0},
		"with items":           {"a.csv", func(k int) string { return fmt.Sprintf("x,y,x,%d", k) }, "model_a,model_b,winner,item", copies, true, 0},
	} {
		var lines []string
		if tt.head != "" {
			lines = append(lines, tt.head)
		}
		for k := range copies {
			lines = append(lines, tt.lines(k))
		}
		r := reported(t, Options{Order: OrderRandom}, report.Options{Draws: 20}, file(t, tt.name, lines...))
		pairs := r.Pairs
		if r.Intervals.By == report.ByVerdict {
			pairs = r.Intervals.Clusters
		}
		if got := r.Groups[0].Ranked[0]; pairs != tt.pairs || (got.RankHigh == 1) != tt.ahead || got.Wins != copies {
			t.Errorf("%s: %d pairs of texts, ranks to %d, %d wins", name, pairs, got.RankHigh, got.Wins)
		}
		if headline := r.Headline(); strings.Contains(headline, "ahead of every") != tt.ahead {
			t.Errorf("%s: the headline is %q", name, headline)
		}
		if trust := r.Reliance(); strings.Contains(trust.String(), "repeat earlier ones") != (tt.repeats > 0) {
			t.Errorf("%s: trust is %q", name, trust)
		}
		note := strings.Contains(strings.Join(r.Notes(), " "), fmt.Sprintf("%d rows name no question and repeat earlier ones in every field", tt.repeats))
		if r.Evaluation.Plan.Given.Repeated != tt.repeats || note != (tt.repeats > 0) {
			t.Errorf("%s: %d rows are repeated, want %d; notes %q", name, r.Evaluation.Plan.Given.Repeated, tt.repeats, r.Notes())
		}
	}

	// The same file twice, and a single row that is there twice by chance.
	lines := []string{"model_a,model_b,winner,session"}
	for k := range 120 {
		lines = append(lines, fmt.Sprintf("x,y,x,%d", k))
	}
	for name, tt := range map[string]struct {
		paths    []string
		repeated int
	}{
		"twice":  {[]string{file(t, "a.csv", lines...), file(t, "b.csv", lines...)}, 120},
		"chance": {[]string{file(t, "a.csv", append(lines, "x,y,x,7")...)}, 0},
	} {
		v, err := Read(tt.paths, Options{Order: OrderRandom})
		if err != nil || v.Evaluation.Given.Repeated != tt.repeated || v.Evaluation.Given.Separate != (tt.repeated == 0) {
			t.Errorf("%s: %+v, %v", name, v.Evaluation.Given, err)
		}
	}
}

// Candidates may have names that mean something else elsewhere.
func TestNamesAreNoObstacle(t *testing.T) {
	t.Parallel()
	rank := func(o Options, lines ...string) string {
		r := reported(t, o, report.Options{}, file(t, "names.csv", lines...))
		var all []string
		for _, c := range r.Groups[0].Ranked {
			all = append(all, fmt.Sprintf("%s %d-%d-%d", c.Name, c.Wins, c.Losses, c.Ties))
		}
		return strings.Join(all, ", ")
	}
	for name, tt := range map[string]struct {
		o     Options
		lines []string
		want  string
	}{
		"positions":          {Options{}, []string{"model_a,model_b,winner", "tie,model_a,model_a", "model_a,tie,tie", "model_a,tie,model_b", "b,tie,tie", "b,model_a,model_b"}, "tie 2-0-2, model_a 1-2-1, b 0-1-1"},
		"names":              {Options{}, []string{"model_a,model_b,winner", "a,b,a", "b,a,a", "a,tie,tie", "c,b,c", "tie,c,tie"}, "tie 2-0-0, a 2-1-0, c 1-1-0, b 0-3-0"},
		"as told":            {Options{Winners: WinnersNames}, []string{"model_a,model_b,winner", "a,b,a", "b,a,a"}, "a 2-0-0, b 0-2-0"},
		"positions, as told": {Options{Winners: WinnersPositions}, []string{"model_a,model_b,winner", "a,b,a", "b,a,a"}, "a 1-1-0, b 1-1-0"},
	} {
		if got := rank(tt.o, tt.lines...); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}

// A file that cannot be ranked says where and why, and what to do.
func TestFilesThatCannotBeRanked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		name, want string
		lines      []string
	}{
		"no winner":       {"a.csv", "a.csv:2: winner: the field is missing; add a column winner", []string{"model_a,model_b", "x,y"}},
		"another winner":  {"a.csv", `a.csv:3: winner: "z" is neither candidate`, []string{"model_a,model_b,winner", "x,y,x", "x,y,z"}},
		"unknown fields":  {"a.yaml", "a.yaml:2: the rows have no verdicts that evalfleet knows; want the fields model_a", []string{"name: essays", "judges: [a]"}},
		"only a header":   {"a.csv", "a.csv:1: there are no rows below the header", []string{"model_a,model_b,winner"}},
		"no verdicts":     {"a.csv", "it contains no verdicts; a.csv: 2 skipped: rows without a winner", []string{"model_a,model_b,winner", "x,y,", "x,y,"}},
		"itself":          {"a.csv", "2 skipped: verdicts on the same text or candidate twice", []string{"model_a,model_b,winner", "x,x,tie", "x,x,tie"}},
		"0 and 1":         {"a.csv", "a.csv:2: winner: the winners are 0 or 1 but never 2", []string{"model_a,model_b,winner", "x,y,1", "x,y,0"}},
		"ambiguous":       {"a.csv", "a.csv:3: winner: the winner is the name of one candidate and the position of the other; say which with --winners", []string{"model_a,model_b,winner", "a,b,a", "b,a,a"}},
		"not JSON":        {"a.jsonl", "a.jsonl:2: not a JSON object", []string{`{"model_a":"x","model_b":"y","winner":"x"}`, `{"model_a":`}},
		"two columns":     {"a.csv", "a.csv:1:9: model_a: a second column has this name; give each column a unique name", []string{"model_a,model_a,winner", "x,y,x"}},
		"a missing cell":  {"a.csv", "a.csv:2:1: not a row of CSV: wrong number of fields", []string{"model_a,model_b,winner", "x,y"}},
		"a long name":     {"a.csv", "cannot be a candidate's name", []string{"model_a,model_b,winner", strings.Repeat("x", 600) + ",y,model_a"}},
		"one score":       {"a.jsonl", "all rows are about one candidate, m", []string{`{"model":"m","score":7,"question_id":1}`}},
		"a quote's start": {"a.csv", `a.csv:2:8: not a row of CSV: extraneous or missing " in quoted-field`, []string{"model_a,model_b,winner", `x,y,"x`}},
	} {
		_, err := Read([]string{file(t, tt.name, tt.lines...)}, Options{})
		var problems config.Problems
		if !errors.As(err, &problems) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
	if _, err := Read([]string{t.TempDir()}, Options{}); err == nil || !strings.Contains(err.Error(), "this is a folder, not a file; name the files in it") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := Read([]string{file(t, "none.csv")}, Options{}); err == nil || !strings.Contains(err.Error(), "the file is empty") {
		t.Errorf("an empty file: %v", err)
	}
}

// The same verdicts are the same evaluation, in whatever file; storing them twice changes nothing. Other verdicts on the
// same texts are another evaluation.
func TestIdentity(t *testing.T) {
	t.Parallel()
	lines := []string{`{"model_a":"x","model_b":"y","winner":"model_a","item":"1"}`, `{"model_a":"x","model_b":"y","winner":"tie","item":"2"}`}
	db, v := stored(t, Options{}, file(t, "a.jsonl", lines...))
	again, err := Read([]string{file(t, "a.jsonl", "["+strings.Join(lines, ",")+"]")}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if again.Evaluation.ID() != v.Evaluation.ID() {
		t.Error("the same verdicts as a list are another evaluation")
	}
	if err := again.Store(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if counts, err := db.Counts(t.Context(), v.Evaluation.ID()); err != nil || len(counts) != 1 || counts[0].Succeeded != 2 {
		t.Errorf("stored twice: %+v, %v", counts, err)
	}
	lines[1] = strings.Replace(lines[1], "tie", "model_b", 1)
	other, err := Read([]string{file(t, "a.jsonl", lines...)}, Options{})
	if err != nil || other.Evaluation.ID() == v.Evaluation.ID() {
		t.Errorf("another verdict is the same evaluation, %v", err)
	}
}

// Texts, questions and reasons are in the results store; without texts, documents have none.
func TestTexts(t *testing.T) {
	t.Parallel()
	path := file(t, "a.jsonl", `{"prompt":"why?","model_a":"x","model_b":"y","response_a":"because","response_b":"so","judge":"j","winner":"A","reason":"longer"}`)
	r := reported(t, Options{}, report.Options{}, path)
	if len(r.Readings) != 1 || r.Readings[0].Question != "why?" || r.Readings[0].Texts != [2]string{"because", "so"} || r.Readings[0].Said[0].Reason != "longer" {
		t.Errorf("the report shows %+v", r.Readings)
	}
	if r.Length.LongerWins != 1 {
		t.Errorf("lengths: %+v", r.Length)
	}
	bare := reported(t, Options{NoTexts: true}, report.Options{}, path)
	if len(bare.Readings) != 1 || bare.Readings[0].Question != "" || bare.Readings[0].Texts != [2]string{} || bare.Length.LongerWins != 0 {
		t.Errorf("without texts, the report shows %+v", bare.Readings)
	}
}

// Scores of single answers are ranked by their means.
func TestScores(t *testing.T) {
	t.Parallel()
	r := reported(t, Options{}, report.Options{}, file(t, "s.jsonl",
		`{"question_id":81,"model":"x","judge":["gpt-4","single-v1"],"score":9,"turn":1}`, `{"question_id":81,"model":"x","judge":["gpt-4","single-v1"],"score":7,"turn":2}`,
		`{"question_id":81,"model":"y","judge":["gpt-4","single-v1"],"score":3,"turn":1}`, `{"question_id":82,"model":"y","judge":["gpt-4","single-v1"],"score":-1,"turn":1}`))
	if !r.ByScore() || r.Groups[0].Ranked[0].Name != "x" || r.Groups[0].Ranked[0].Overall.Mean() != 8 || r.Scored != 3 {
		t.Errorf("got %+v", r.Groups)
	}
}

// Judges of a crowd share what is estimated for a judge, and each verdict keeps the name of who gave it.
func TestCrowd(t *testing.T) {
	t.Parallel()
	lines := []string{"model_a,model_b,winner,judge,item"}
	for i := range 100 {
		lines = append(lines, fmt.Sprintf("x,y,model_a,person %d,%d", i, i%7), fmt.Sprintf("y,x,model_a,regular,%d", i))
	}
	db, v := stored(t, Options{Order: OrderShown}, file(t, "crowd.csv", lines...))
	var names []string
	for _, j := range v.Evaluation.Judges {
		names = append(names, j.Name)
	}
	if diff := cmp.Diff([]string{"regular", others}, names); diff != "" || v.Evaluation.Given.Pooled != 100 {
		t.Errorf("%d are pooled (-want +got):\n%s", v.Evaluation.Given.Pooled, diff)
	}
	r, err := report.Build(t.Context(), db, v.Evaluation.ID(), report.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(r.Notes(), "\n"); !strings.Contains(notes, "100 judges with few verdicts each are treated as one, called “other judges”") {
		t.Errorf("the notes do not say who is treated as one:\n%s", notes)
	}
	if swaps := r.Judges[1].Swaps.Total(); swaps != 0 {
		t.Errorf("%d pairs in both orders by different people", swaps)
	}
	people := map[string]bool{}
	for row, err := range db.PairwiseRows(context.Background(), v.Evaluation.ID()) {
		if err != nil {
			t.Fatal(err)
		}
		people[row.Model] = true
	}
	if len(people) != 101 {
		t.Errorf("%d people in the results store, want 101", len(people))
	}
}

// A file that changes between its two readings is refused.
func TestFileThatChanges(t *testing.T) {
	t.Parallel()
	path := file(t, "a.csv", "model_a,model_b,winner", "x,y,x", "x,y,y")
	v, err := Read([]string{path}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("model_a,model_b,winner\nx,y,x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := results.Open(t.Context(), filepath.Join(t.TempDir(), "results.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := v.Store(t.Context(), db); err == nil || !strings.Contains(err.Error(), "the file has changed") {
		t.Errorf("got %v", err)
	}
}
