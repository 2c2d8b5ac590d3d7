package reuse_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/reuse"
)

// letters are the texts of essays by their ids.
func letters(ids ...string) map[string]string {
	texts := map[string]string{}
	for _, id := range ids {
		texts[id] = "text " + id
	}
	return texts
}

// essays returns an evaluation in which two judges score and compare texts, and the texts by hash.
func essays(name string, texts map[string]string, change func(*eval.Evaluation)) (*eval.Evaluation, map[string]string) {
	e := &eval.Evaluation{
		Name: name, Blind: true, JSON: eval.JSONAuto, Items: []eval.Item{{ID: "tea", Question: "What is tea?"}},
		Judges:   []eval.Judge{{Name: "a", Provider: "openai", Model: "a"}, {Name: "b", Provider: "openai", Model: "b"}},
		Single:   &eval.Single{Criteria: []eval.Criterion{{Name: "clarity"}, {Name: "depth"}}, Scale: eval.Scale{Min: 1, Max: 5}, Trials: 1},
		Pairwise: &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 2, Ties: true},
	}
	byHash := map[string]string{}
	for _, id := range slices.Sorted(maps.Keys(texts)) {
		hash := eval.TextHash(texts[id])
		byHash[hash] = texts[id]
		e.Documents = append(e.Documents, eval.Document{ID: id, Candidate: id, Hash: hash, Bytes: len(texts[id])})
	}
	if change != nil {
		change(e)
	}
	e.Normalize()
	return e, byHash
}

// open opens a results store of its own.
func open(t testing.TB) results.Store {
	t.Helper()
	db, err := results.Open(t.Context(), filepath.Join(t.TempDir(), "results.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// asking plans an evaluation and puts it into a results store.
func asking(t testing.TB, db results.Store, e *eval.Evaluation, texts map[string]string, settings record.Settings) reuse.Asking {
	t.Helper()
	r, plans, err := enqueue.Plan(e.ID(), e, settings)
	if err != nil {
		t.Fatal(err)
	}
	stored := results.Evaluation{ID: r.ID, Plan: e, Settings: settings, Phases: r.Phases, Created: time.Now()}
	if err := db.PutEvaluation(t.Context(), stored, maps.All(texts)); err != nil {
		t.Fatal(err)
	}
	return reuse.Asking{Evaluation: e, Record: r, Plans: plans}
}

// answer records every run of an evaluation, each with an answer of its own. change may alter a run.
func answer(t testing.TB, db results.Store, of reuse.Asking, change func(*record.Run)) {
	t.Helper()
	var entries []record.Entry
	for phase, p := range of.Plans {
		judges, shown := of.Evaluation.JudgesOf(p.Kind()), of.Evaluation.Shown(p.Kind())
		for index := range p.Runs() {
			at := p.Run(index)
			run := record.Run{
				Phase: phase, Index: index, Kind: p.Kind(), State: eval.StateSucceeded.String(),
				Judge: judges[at.Judge].Name, Model: judges[at.Judge].Target(), AnsweredBy: judges[at.Judge].Target(),
				Item: of.Evaluation.Items[shown[at.First].Item].ID, Trial: at.Trial,
				Documents: []string{shown[at.First].ID}, Candidates: []string{shown[at.First].Candidate},
				Attempts: 1, Started: time.Now(), Ended: time.Now(), Worker: "w",
			}
			own := fmt.Sprintf("%d.%d of %s", phase, index, of.Evaluation.Name)
			switch p.Kind() {
			case eval.KindSingle:
				run.Scores = []record.Score{
					{Criterion: "clarity", Score: float64(index%5 + 1), Reason: "clear " + own}, {Criterion: "depth", Score: 2, Reason: "deep " + own},
				}
			case eval.KindPairwise:
				run.Documents = append(run.Documents, shown[at.Second].ID)
				run.Candidates = append(run.Candidates, shown[at.Second].Candidate)
				run.Winner = append(slices.Clone(run.Documents), eval.Tie)[index%3]
				run.Reason = own
				run.Chances = &eval.Chances{First: 0.5, Tie: 0.25, Second: 0.25}
			case eval.KindPrompts:
				run.Name = of.Evaluation.Prompts.List[index].ID
				run.Answer, run.Finish = "answer "+own, "stop"
			}
			if change != nil {
				change(&run)
			}
			entries = append(entries, record.Entry{Run: &run})
		}
	}
	if err := db.Append(t.Context(), of.Record.ID, entries); err != nil {
		t.Fatal(err)
	}
}

// known finds what earlier evaluations in db have answered, and stores it there.
func known(t *testing.T, db results.Store, of reuse.Asking, others ...results.Reader) int {
	t.Helper()
	found, err := reuse.Find(t.Context(), of, db, others...)
	if err != nil {
		t.Fatal(err)
	}
	if err := found.Store(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return found.Runs()
}

// outcomes returns what is recorded of an evaluation, by judge, texts in the order shown and trial.
func outcomes(t *testing.T, db results.Store, of reuse.Asking) map[string]string {
	t.Helper()
	text := map[string]string{}
	for _, d := range of.Evaluation.Documents {
		text[d.ID] = d.Hash
	}
	all := map[string]string{}
	for row, err := range db.PairwiseRows(t.Context(), of.Record.ID) {
		if err != nil {
			t.Fatal(err)
		}
		winner := row.Winner
		if winner != eval.Tie {
			winner = text[winner]
		}
		chances := eval.Chances{}
		if row.Chances != nil {
			chances = *row.Chances
		}
		all[fmt.Sprint(row.Model, text[row.Document1], text[row.Document2], row.Trial)] = fmt.Sprint(winner, chances, row.Reason)
	}
	for row, err := range db.SingleRows(t.Context(), of.Record.ID) {
		if err != nil {
			t.Fatal(err)
		}
		all[fmt.Sprint(row.Model, text[row.Document], row.Criterion, row.Trial)] = fmt.Sprint(row.Score, row.Reason)
	}
	return all
}

// A fourth essay: all that is known about the first three is used, whatever they and the judges are called by now, and
// nothing else. It counts as answered before, and costs nothing.
func TestGrownEvaluation(t *testing.T) {
	t.Parallel()
	db := open(t)
	e, texts := essays("three", letters("x", "y", "z"), nil)
	three := asking(t, db, e, texts, record.Settings{})
	answer(t, db, three, nil)

	renamed := letters("w", "x", "y")
	renamed["0 z"] = "text z" // sorted before the others
	e, texts = essays("four", renamed, func(e *eval.Evaluation) { e.Judges[0].Name, e.Judges[1].Name = "strict", "kind" })
	four := asking(t, db, e, texts, record.Settings{})
	const want = 3*2 + 3*2*2*2 // texts × judges, pairs × orders × trials × judges
	if got := known(t, db, four); got != want {
		t.Errorf("%d runs are known, want %d", got, want)
	}
	before, now := outcomes(t, db, three), outcomes(t, db, four)
	if !maps.Equal(now, before) {
		t.Errorf("recorded of the new evaluation:\n%v\nwant what was recorded before:\n%v", now, before)
	}
	if again := known(t, db, four); again != 0 {
		t.Errorf("%d runs are known once more", again)
	}
	totals, err := db.CallTotals(t.Context(), four.Record.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, total := range totals {
		if total.Calls != 0 || total.FromCache != want/2 || total.CostUSD != 0 || total.Unpriced != 0 {
			t.Errorf("%s: %+v, want %d answered before and nothing else", total.Model, total.Usage, want/2)
		}
	}
}

// Whatever changes the question, its text or the way in which it is asked makes it another question.
func TestOtherQuestions(t *testing.T) {
	t.Parallel()
	db := open(t)
	e, texts := essays("before", letters("x", "y"), nil)
	answer(t, db, asking(t, db, e, texts, record.Settings{}), nil)
	for name, c := range map[string]struct {
		texts  map[string]string
		change func(*eval.Evaluation)
		want   int // of 2·2 scores and 2·2·2 verdicts
	}{
		"only a name":       {want: 12},
		"one judge less":    {change: func(e *eval.Evaluation) { e.Judges = e.Judges[:1] }, want: 6},
		"another model":     {change: func(e *eval.Evaluation) { e.Judges[0].Model = "c" }, want: 6},
		"another provider":  {change: func(e *eval.Evaluation) { e.Judges[0].Provider = "xai" }, want: 6},
		"settings":          {change: func(e *eval.Evaluation) { e.Judges[0].Overrides = map[string]any{"temperature": 0.5} }, want: 6},
		"a text":            {texts: map[string]string{"x": "text x", "y": "text y."}, want: 2},
		"question":          {change: func(e *eval.Evaluation) { e.Items[0].Question = "What is coffee?" }},
		"reference":         {change: func(e *eval.Evaluation) { e.Items[0].Reference = "a plant" }},
		"fields":            {change: func(e *eval.Evaluation) { e.Items[0].Fields = map[string]string{"level": "easy"} }},
		"template of pairs": {change: func(e *eval.Evaluation) { e.Pairwise.Template = "{{documents}}" }, want: 4},
		"no ties":           {change: func(e *eval.Evaluation) { e.Pairwise.Ties = false }, want: 4},
		"a criterion": {change: func(e *eval.Evaluation) {
			e.Pairwise.Criteria = []eval.Criterion{{Name: "style"}}
		}, want: 4},
		"degrees":           {change: func(e *eval.Evaluation) { e.Pairwise.Degrees = 2 }, want: 4},
		"soft":              {change: func(e *eval.Evaluation) { e.Pairwise.Soft = true }, want: 4},
		"criteria":          {change: func(e *eval.Evaluation) { e.Single.Criteria[0].Description = "is it?" }, want: 8},
		"scale":             {change: func(e *eval.Evaluation) { e.Single.Scale.Max = 10 }, want: 8},
		"structured output": {change: func(e *eval.Evaluation) { e.JSON = eval.JSONFalse }},
		"search":            {change: func(e *eval.Evaluation) { e.Grounding = eval.Required }},
		"names are shown":   {change: func(e *eval.Evaluation) { e.Blind = false }},
		"again":             {change: func(e *eval.Evaluation) { e.Again = "second" }},
		"more trials":       {change: func(e *eval.Evaluation) { e.Pairwise.Trials = 3 }, want: 12},
		"one order":         {change: func(e *eval.Evaluation) { e.Pairwise.Order = eval.OrderAsListed }, want: 8},
	} {
		if c.texts == nil {
			c.texts = letters("x", "y")
		}
		e, _ := essays(name, c.texts, c.change)
		r, plans, err := enqueue.Plan(e.ID(), e, record.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		found, err := reuse.Find(t.Context(), reuse.Asking{Evaluation: e, Record: r, Plans: plans}, nil, db)
		if err != nil {
			t.Fatal(err)
		}
		if found.Runs() != c.want {
			t.Errorf("%s: %d runs are known, want %d", name, found.Runs(), c.want)
		}
	}
}

// Only what the model that is asked has answered is used, and each answer for one run. Pairs whose comparison may end
// early are all asked.
func TestAnswersThatAreNotUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change   func(*record.Run)
		settings record.Settings
		texts    map[string]string
		want     int
	}{
		"all are used": {want: 12},
		"of a fallback": {want: 6, change: func(r *record.Run) {
			if r.Judge == "a" {
				r.AnsweredBy = "openai:mini"
			}
		}},
		"failed": {want: 6, change: func(r *record.Run) {
			if r.Judge == "a" {
				r.State, r.Class, r.AnsweredBy, r.Winner, r.Scores = eval.StateFailed.String(), "malformed", "", "", nil
			}
		}},
		"without a call": {want: 4, change: func(r *record.Run) { // scores are of a model
			if r.Kind == eval.KindPairwise {
				r.AnsweredBy = ""
			}
		}},
		"two equal texts":  {want: 12, texts: map[string]string{"x": "text x", "y": "text y", "z": "text x"}},
		"it may end early": {settings: record.Settings{Until: &record.Until{Top: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := open(t)
			e, texts := essays("before", letters("x", "y"), nil)
			answer(t, before, asking(t, before, e, texts, record.Settings{}), c.change)
			if c.texts == nil {
				c.texts = letters("x", "y")
			}
			db := open(t)
			e, texts = essays("now", c.texts, nil)
			if got := known(t, db, asking(t, db, e, texts, c.settings), before); got != c.want {
				t.Errorf("%d runs are known, want %d", got, c.want)
			}
		})
	}
}

// An evaluation that grew by and by has left many behind: what the newest of them has is not read again from the others.
func TestPartsAreNotRead(t *testing.T) {
	t.Parallel()
	parts := []struct {
		name  string
		texts map[string]string
		read  bool
	}{
		{"a third text", letters("x", "y", "z"), true},
		{"two of them", letters("x", "y"), false},
		{"another text", letters("x", "w"), true},
		{"nothing shared", letters("u", "v"), false},
	}
	var readers []results.Reader
	for _, part := range parts {
		db := open(t)
		e, texts := essays(part.name, part.texts, nil)
		of := asking(t, db, e, texts, record.Settings{})
		answer(t, db, of, nil)
		if err := db.Finish(t.Context(), of.Record.ID, time.Now()); err != nil {
			t.Fatal(err)
		}
		readers = append(readers, &watched{Reader: db})
	}

	db := open(t)
	e, texts := essays("now", letters("w", "x", "y", "z"), nil)
	if got, want := known(t, db, asking(t, db, e, texts, record.Settings{}), readers...), 4*2+4*2*2*2; got != want {
		t.Errorf("%d runs are known, want %d", got, want)
	}
	for i, part := range parts {
		if read := readers[i].(*watched).read; read != part.read {
			t.Errorf("%s: read is %t, want %t", part.name, read, part.read)
		}
	}
}

// watched notes whether verdicts are read.
type watched struct {
	results.Reader
	read bool
}

func (w *watched) PairwiseRows(ctx context.Context, id eval.ID) iter.Seq2[results.PairwiseRow, error] {
	w.read = true
	return w.Reader.PairwiseRows(ctx, id)
}

// prompted returns an evaluation that asks models two prompts, one of them twice.
func prompted(name string, models ...string) (*eval.Evaluation, map[string]string) {
	rows := []string{`{"prompt":"one"}`, `{"prompt":"two"}`}
	p, texts := &eval.Prompts{Format: eval.PromptsTemplates}, map[string]string{}
	for i, row := range rows {
		hash := eval.TextHash(row)
		texts[hash] = row
		p.Rows = append(p.Rows, eval.Document{ID: fmt.Sprint("line ", i+1), Hash: hash, Bytes: len(row)})
	}
	for i, model := range models {
		p.Models = append(p.Models, eval.Judge{Name: "openai:" + model, Provider: "openai", Model: model})
		for k, row := range []int{0, 1, 1} {
			p.List = append(p.List, eval.Prompt{ID: fmt.Sprintf("%s-%d", model, k), Model: i, Row: row})
		}
	}
	e := &eval.Evaluation{Name: name, Items: []eval.Item{{}}, Prompts: p, JSON: eval.JSONFalse}
	e.Normalize()
	return e, texts
}

// A model more: the answers of the others are used, the first and the second answer to the same prompt each once.
func TestAnswersToPrompts(t *testing.T) {
	t.Parallel()
	db := open(t)
	e, texts := prompted("before", "m")
	before := asking(t, db, e, texts, record.Settings{})
	answer(t, db, before, nil)
	e, texts = prompted("now", "a", "m")
	now := asking(t, db, e, texts, record.Settings{})
	if got := known(t, db, now); got != 3 {
		t.Errorf("%d runs are known, want 3", got)
	}
	var had, has []string
	for of, into := range map[eval.ID]*[]string{before.Record.ID: &had, now.Record.ID: &has} {
		for row, err := range db.Responses(t.Context(), of) {
			if err != nil {
				t.Fatal(err)
			}
			*into = append(*into, row.Name+": "+row.Answer+" "+row.Finish)
		}
	}
	if !slices.Equal(has, had) {
		t.Errorf("answers %q, want %q", has, had)
	}
	e, texts = prompted("experiment", "m")
	e.Prompts.Format = eval.PromptsExperiment
	if got := known(t, db, asking(t, db, e, texts, record.Settings{})); got != 0 {
		t.Errorf("an experiment takes %d answers from elsewhere, want none", got)
	}
}

// TestRubricsAreTheQuestion: other points ask nothing new, because judges do not see them. Other criteria, or another
// order, do.
func TestRubricsAreTheQuestion(t *testing.T) {
	t.Parallel()
	db := open(t)
	rubric := func(texts ...string) func(*eval.Evaluation) {
		return func(e *eval.Evaluation) {
			e.Pairwise = nil
			e.Single = &eval.Single{Rubric: true, Criteria: []eval.Criterion{{Name: eval.RubricName}}, Trials: 1, Template: "[[rubric]]"}
			for i, text := range texts {
				e.Items[0].Rubric = append(e.Items[0].Rubric, eval.RubricCriterion{Text: text, Points: float64(i + 1)})
			}
			e.Single.Scale = eval.RubricScale(e.Items)
		}
	}
	e, texts := essays("before", letters("x", "y"), rubric("names it", "is brief"))
	before := asking(t, db, e, texts, record.Settings{})
	answer(t, db, before, func(r *record.Run) {
		r.Scores = []record.Score{{Criterion: "rubric 1", Score: 1, Reason: "it does"}, {Criterion: "rubric 2", Score: 0, Reason: "it is not"}}
	})

	points := rubric("names it", "is brief")
	for name, c := range map[string]struct {
		change func(*eval.Evaluation)
		want   int // of 2 texts and 2 judges
	}{
		"points and tags": {func(e *eval.Evaluation) {
			points(e)
			e.Items[0].Rubric[1].Points, e.Items[0].Rubric[0].Tags = -7, []string{"facts"}
			e.Single.Scale = eval.RubricScale(e.Items)
		}, 4},
		"a text":        {rubric("names it", "is short"), 0},
		"another order": {rubric("is brief", "names it"), 0},
		"one more":      {rubric("names it", "is brief", "is kind"), 0},
		"one less":      {rubric("names it"), 0},
	} {
		e, texts := essays(name, letters("x", "y"), c.change)
		if got := known(t, db, asking(t, db, e, texts, record.Settings{})); got != c.want {
			t.Errorf("%s: %d runs are known, want %d", name, got, c.want)
		}
	}
}
