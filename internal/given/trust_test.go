package given

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/report"
)

// Where scores rank candidates, the line of trust weighs how many there are, how judges agree on them, and failures.
func TestTrustInScores(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		judges, questions int
		score             func(judge, question, candidate int) any
		want              report.Level
		why               string
	}{
		"agree":               {2, 20, func(j, q, c int) any { return 3 + q%4 + 2*c + j*(q%10/9)*c }, report.Sound, "Judges' scores agree with alpha 0.99."},
		"one under two names": {2, 20, func(_, q, c int) any { return 3 + q%4 + 2*c }, report.Caution, "“j0 single” and “j1 single” gave the same scores to all 40 texts"},
		"alike on few texts":  {2, 6, func(_, q, c int) any { return 3 + q%4 + 2*c }, report.Sound, "Judges' scores agree with alpha 1.00."},
		"all right or wrong":  {2, 40, func(_, q, c int) any { return 1 + one(q%3 > c) }, report.Sound, "Judges' scores agree with alpha 1.00."},
		"agree partly":        {2, 20, func(j, q, c int) any { return 3 + q%4 + 2*c*(1-j*one(q%3 > 0)) }, report.Caution, "judges' scores agree with alpha 0."},
		"hard in other items": {2, 20, func(j, q, c int) any { return 3 + q%4 + 2*c + 3*j*(q%2) }, report.Sound, "Judges' scores agree with alpha 1.00."},
		"contradict":          {2, 30, func(j, q, c int) any { return 5 + (1-2*j)*(q%3+c) }, report.Unsound, "no better than chance"},
		"one judge":           {1, 20, func(_, q, c int) any { return 3 + q%4 + 2*c }, report.Caution, "there is one judge"},
		"two questions":       {2, 2, func(_, q, c int) any { return 3 + q%4 + 2*c }, report.Caution, "candidates have scores on 2 items"},
		"on other questions":  {2, 20, func(_, q, c int) any { return map[bool]any{true: 4 + q%4, false: nil}[q%2 == c] }, report.Unknown, "has no scores on items"},
		"on one of 20":        {2, 20, func(_, q, c int) any { return map[bool]any{true: 4 + q%4, false: nil}[c == 0 || q == 0] }, report.Unknown, "has scores on only 1 of 20 items"},
		"a third not given":   {2, 30, func(_, q, c int) any { return map[bool]any{true: 4 + q%4, false: -1}[c == 0 || q%3 > 0] }, report.Unsound, "“m1” lacks 33 % of its scores"},
		"few, by one judge":   {1, 2, func(_, q, c int) any { return 3 + q%4 + 2*c }, report.Unknown, "4 scores were given, not at least 5"},
	} {
		var lines []string
		for judge := range tt.judges {
			for q := range tt.questions {
				for candidate := range 2 {
					if tt.score(judge, q, candidate) == nil {
						continue
					}
					lines = append(lines, fmt.Sprintf(`{"question_id":%d,"model":"m%d","score":%v,"judge":["j%d","single"],"turn":1}`,
						q, candidate, tt.score(judge, q, candidate), judge))
				}
			}
		}
		r := reported(t, Options{}, report.Options{Draws: 20}, file(t, "s.jsonl", lines...))
		trust := r.Reliance()
		if trust == nil || trust.Level != tt.want || !strings.Contains(trust.String(), tt.why) {
			t.Errorf("%s: trust is %+v, %s; want %s and %q", name, trust, trust, tt.want, tt.why)
		}
		if doubted := strings.Contains(r.Headline(), "to say how certain that is"); doubted != (tt.want == report.Unknown || tt.want == report.Unsound) {
			t.Errorf("%s: the headline is %q", name, r.Headline())
		}
	}
}

// A row whose judge gave no verdict is a missing verdict of its candidates, in each format; an empty vote is none.
func TestRowsWithoutAVerdict(t *testing.T) {
	t.Parallel()
	battle := []string{"item,judge,model_a,model_b,winner"}
	mtBench := []string{}
	votes := []string{"item,candidate_a,candidate_b,ann"}
	for q := range 12 {
		winner, game := "model_a", "model_1"
		if q%3 == 0 {
			winner, game = "", "error"
		}
		battle = append(battle,
			fmt.Sprintf("%d,j,x,y,%s", q, winner), fmt.Sprintf("%d,j,y,x,model_b", q), fmt.Sprintf("%d,j,y,z,model_a", q), fmt.Sprintf("%d,j,z,y,model_b", q))
		for _, pair := range [][3]string{{"x", "y", game}, {"y", "z", "model_1"}} {
			mtBench = append(mtBench, fmt.Sprintf(`{"question_id":%d,"model_1":%q,"model_2":%q,"g1_winner":%q,"g2_winner":"model_1","judge":["j","pair-v2"]}`,
				q, pair[0], pair[1], pair[2]))
		}
		votes = append(votes, fmt.Sprintf("%d,x,y,%s", q, map[bool]string{true: "", false: "1"}[q%3 == 0]), fmt.Sprintf("%d,y,z,1", q))
	}

	for name, tt := range map[string]struct {
		lines []string
		lacks int
	}{"a.csv": {battle, 4}, "b.jsonl": {mtBench, 4}, "c.csv": {votes, 0}} {
		r := reported(t, Options{Order: OrderShown}, report.Options{Draws: 20}, file(t, name, tt.lines...))
		lacks := map[string]int{}
		if r.Missing != nil {
			for _, one := range r.Missing.Candidates {
				lacks[one.Name] = one.Verdicts
			}
		}
		if lacks["x"] != tt.lacks || lacks["y"] != tt.lacks || lacks["z"] != 0 {
			t.Errorf("%s: missing verdicts %v, want %d of x and y", name, lacks, tt.lacks)
		}
		if trust := r.Reliance(); (tt.lacks > 0) != strings.Contains(trust.String(), "“x” lacks 17 % of its verdicts") {
			t.Errorf("%s: trust is %q", name, trust)
		}
		if notes := strings.Join(r.Notes(), " "); strings.Contains(notes, "retry") {
			t.Errorf("%s: a file's verdicts cannot be asked again: %s", name, notes)
		}
	}
}

// If candidates keep to one column of the files and no order is known, a lead may be a preference for a place, unless the
// user says that the order was random. Candidates in both columns, or in few rows, are no such case.
func TestCandidatesThatKeepToAColumn(t *testing.T) {
	t.Parallel()
	const rows = 40
	for name, tt := range map[string]struct {
		rows  int
		order string
		swap  func(row int) bool // candidates are in the other columns
		keeps bool
	}{
		"always":               {rows, "", func(int) bool { return false }, true},
		"nearly always":        {rows, "", func(row int) bool { return row%10 == 0 }, true},
		"said to be unknown":   {rows, OrderUnknown, func(int) bool { return false }, true},
		"mostly":               {rows, "", func(row int) bool { return row%4 == 0 }, true},
		"in both columns":      {rows, "", func(row int) bool { return row%2 == 0 }, false},
		"said to be random":    {rows, OrderRandom, func(int) bool { return false }, false},
		"said to be the order": {rows, OrderShown, func(int) bool { return false }, false},
		"few rows":             {3, "", func(int) bool { return false }, false},
	} {
		lines := []string{"item,model_a,model_b,winner"}
		for row := range tt.rows {
			first, second, winner := "x", "y", "model_a"
			if tt.swap(row) {
				first, second, winner = second, first, "model_b"
			}
			lines = append(lines, fmt.Sprintf("%d,%s,%s,%s", row, first, second, winner))
		}
		v, err := Read([]string{file(t, "a.csv", lines...)}, Options{Order: tt.order})
		if err != nil {
			t.Fatal(err)
		}
		if column := v.Evaluation.Given.Column; (column != nil) != tt.keeps {
			t.Errorf("%s: candidates keep to a column: %+v, want %t", name, column, tt.keeps)
		}
	}

	// Others that are in both columns do not hide one that is not.
	among := []string{"item,model_a,model_b,winner"}
	for row := range rows {
		among = append(among, fmt.Sprintf("%d,new,m%d,model_a", row, row%8))
		for k := range 4 {
			among = append(among, fmt.Sprintf("%d,m%d,m%d,model_b", row, 2*k+row%2, 2*k+(row+1)%2))
		}
	}
	if v, err := Read([]string{file(t, "a.csv", among...)}, Options{}); err != nil || v.Evaluation.Given.Column == nil ||
		v.Evaluation.Given.Column.Candidate != "new" {
		t.Errorf("among others: %+v, %v", v, err)
	}

	lines := []string{"item,model_a,model_b,winner"}
	for row := range rows {
		lines = append(lines, fmt.Sprintf("%d,x,y,model_a", row))
	}
	r := reported(t, Options{}, report.Options{Draws: 20}, file(t, "a.csv", lines...))
	gate, err := report.ParseRequirement("x >= y @ 0.9")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := gate.Check(r); err != nil || got.Met || !strings.Contains(got.Got, "too little is known") {
		t.Errorf("a gate on the two: %+v, %v", got, err)
	}
	if trust := r.Reliance(); trust.Level != report.Unknown || !strings.Contains(trust.String(), "“x” is in the first column of 40 of its 40 rows") {
		t.Errorf("trust is %s, %q", trust.Level, trust)
	}
	if headline := r.Headline(); strings.Contains(headline, "ahead") {
		t.Errorf("the headline is %q", headline)
	}
}

// With nobody but a crowd, the line of trust says so instead of "only one judge".
func TestTrustInACrowd(t *testing.T) {
	t.Parallel()
	lines := []string{"model_a,model_b,winner,judge,item"}
	for i := range 60 {
		lines = append(lines, fmt.Sprintf("x,y,model_a,person %d,%d", i, i))
	}
	r := reported(t, Options{Order: OrderRandom}, report.Options{}, file(t, "crowd.csv", lines...))
	if trust := r.Reliance().String(); !strings.Contains(trust, "60 judges gave too few verdicts each to be compared") {
		t.Errorf("trust is %q", trust)
	}
}

// If all texts that were compared are identical, the headline says so.
func TestIdenticalTextsAlone(t *testing.T) {
	t.Parallel()
	lines := []string{"item,doc_id_1,doc_id_2,candidate_1,candidate_2,judge,model,answered_by,winner_doc_id"}
	for q := range 6 {
		lines = append(lines, fmt.Sprintf("%d,%d/a,%d/b,a,b,j,j,,tie", q, q, q))
	}
	r := reported(t, Options{}, report.Options{}, file(t, "verdicts.csv", lines...))
	if got := r.Headline(); got != "All texts that were compared with each other are identical, so there is nothing to rank." {
		t.Errorf("the headline is %q", got)
	}
}

// Votes of people are not called judges' verdicts in the line of trust, nor compared with people's.
func TestTrustInVotes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ people, want, not string }{
		"two": {"ann,ben", "people agree on", "judge"},
		"one": {"ann", "all votes are of one person", "judge"},
	} {
		lines := []string{"item,candidate_a,candidate_b," + tt.people}
		for q := range 20 {
			vote := fmt.Sprint(1 + q%5/4)
			lines = append(lines, fmt.Sprintf("%d,x,y,%s", q, strings.Join(slices.Repeat([]string{vote}, strings.Count(tt.people, ",")+1), ",")))
		}
		r := reported(t, Options{}, report.Options{Draws: 20}, file(t, "votes.csv", lines...))
		trust := strings.ToLower(r.Reliance().String())
		if !strings.Contains(trust, tt.want) || strings.Contains(trust, tt.not) || strings.Contains(trust, "no votes of people") {
			t.Errorf("%s: trust is %q", name, trust)
		}
	}
}

// Where no file says which text was shown first, nothing in the report is about the two orders, as it is where they do.
func TestUnknownOrderIsNotBoth(t *testing.T) {
	t.Parallel()
	for order, known := range map[string]bool{OrderUnknown: false, OrderShown: true} {
		lines := []string{"item,model_a,model_b,winner,judge"}
		for q := range 20 {
			for judge := range 2 {
				first, second := "x", "y"
				if q%2 == 1 {
					first, second = second, first
				}
				lines = append(lines, fmt.Sprintf("%d,%s,%s,x,j%d", q, first, second, judge), fmt.Sprintf("%d,y,z,%s,j%d", q, []string{"y", "z"}[q%3/2], judge),
					fmt.Sprintf("%d,z,y,y,j%d", q, judge))
			}
		}
		r := reported(t, Options{Order: order}, report.Options{Draws: 20}, file(t, "a.csv", lines...))
		for form, write := range map[string]func(*strings.Builder) error{
			"text":     func(out *strings.Builder) error { return r.WriteText(out, report.TextOptions{}) },
			"Markdown": func(out *strings.Builder) error { return r.WriteMarkdown(out) },
			"page":     func(out *strings.Builder) error { return r.WriteHTML(out) },
		} {
			var out strings.Builder
			if err := write(&out); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(out.String(), "both orders"); got != known {
				t.Errorf("order %s: %s has both orders: %t", order, form, got)
			}
		}
	}
}
