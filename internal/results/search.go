package results

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
)

// Bounds of a search, so that it is fast for any filter and any number of runs.
const (
	MostFound  = 2_000  // runs on a page
	MostLooked = 10_000 // runs that one search looks at, and the most that it counts
)

// Filter selects recorded runs of an evaluation. Unset fields match every run.
type Filter struct {
	Phase     *int
	Kind      eval.Kind
	State     eval.State
	Class     string // of the failure
	Judge     string
	Model     string // provider:model that was asked, or that answered
	Item      string
	Candidate string   // of one of the documents
	Documents []string // the run shows all of them
	Order     string   // of a pair: OrderForward or OrderReverse
	Trial     int
	Winner    string // a document, a candidate, or eval.Tie
	// Text occurs in the reason, argument, answer or error, ignoring the case of A to Z.
	Text string
}

// Search asks for a page of runs. A page begins after a run and not at a number, so that runs which
// are recorded meanwhile do not move others to another page.
type Search struct {
	Filter
	Newest bool  // the latest end first; else by phase and index
	After  *Mark // nil: from the beginning
	Most   int   // runs on the page, from 1 to MostFound
}

// Mark is a run's position in the orders of a Search.
type Mark struct {
	Phase, Index int
	Ended        time.Time // with Search.Newest only
}

// Page is the result of a Search.
type Page struct {
	Runs []RunRow // with their verdicts and answers
	// Next is where the search continues; nil: it is complete. A page that is not full has one if
	// MostLooked runs were looked at.
	Next *Mark
}

// where is a condition under construction.
type where struct {
	from string // the tables; empty in a part
	text string
	args []any // of from and text
}

func (w where) and(condition string, args ...any) where {
	if w.text != "" {
		condition = w.text + " AND " + condition
	}
	return where{w.from, condition, append(slices.Clip(w.args), args...)}
}

func (w where) plus(v where) where {
	if v.text == "" {
		return w
	}
	return w.and(v.text, v.args...)
}

// found returns the conditions of a search on runs r. indexed are those that an index supports;
// looked are those for which each run has to be read. index names the index to use.
func (s Search) found(id eval.ID, index func(string) string) (indexed, looked where) {
	from := where{from: "runs r"}
	if len(s.Documents) > 0 {
		from = showing(id, s.Documents[0])
		for _, document := range s.Documents[1:] {
			looked = looked.and("(r.doc_id_1 = ? OR r.doc_id_2 = ?)", document, document)
		}
	}

	indexed = from.and("r.evaluation = ?", string(id))
	if s.Phase != nil {
		indexed = indexed.and("r.phase = ?", *s.Phase)
	}
	if s.Kind != "" {
		phases := "SELECT %s(phase) FROM phases WHERE evaluation = ? AND kind = ?"
		indexed = indexed.and(fmt.Sprintf("r.phase BETWEEN ("+phases+") AND ("+phases+")", "min", "max"),
			string(id), string(s.Kind), string(id), string(s.Kind))
		looked = looked.and("r.kind = ?", string(s.Kind))
	}

	unfit := s.State == eval.StateFailed || s.State == eval.StateCancelled
	name := ""
	switch {
	case len(s.Documents) > 0:
		return indexed, looked.plus(s.each())
	case s.Newest && (unfit || s.Class != ""):
		name, indexed = "runs_unfit_by_end", indexed.and("r.state <> 'succeeded'")
	case s.Newest:
		name = "runs_by_end"
	case s.Class != "":
		name, indexed = "runs_by_class", indexed.and("r.class = ? AND r.class <> ''", s.Class)
	case unfit:
		name, indexed = "runs_by_state", indexed.and("r.state = ? AND r.state <> 'succeeded'", s.State.String())
	case s.Item != "":
		name, indexed = "runs_by_item", indexed.and("r.item = ? AND r.item <> ''", s.Item)
	}

	if name != "" {
		indexed.from += index(name)
	}
	return indexed, looked.plus(s.each())
}

// showing returns the condition for runs that show a document, by an index on documents and no
// other. SQLite joins the tables of a CROSS JOIN in their order; PostgreSQL keeps other conditions
// out of what is materialized.
func showing(id eval.ID, document string) where {
	const shows = "SELECT evaluation, phase, index_ FROM runs WHERE evaluation = ? AND "
	return where{
		from: "(WITH d AS MATERIALIZED (" + shows + "doc_id_1 = ? UNION " + shows +
			"doc_id_2 = ? AND doc_id_2 <> '') SELECT * FROM d) s CROSS JOIN runs r",
		args: []any{string(id), document, string(id), document},
	}.and("r.evaluation = s.evaluation AND r.phase = s.phase AND r.index_ = s.index_")
}

// each returns the conditions on a run that need no index.
func (f Filter) each() (w where) {
	if f.State != eval.StateNone {
		w = w.and("r.state = ?", f.State.String())
	}
	for _, c := range []struct{ column, value string }{{"class", f.Class}, {"judge", f.Judge}, {"item", f.Item}} {
		if c.value != "" {
			w = w.and("r."+c.column+" = ?", c.value)
		}
	}

	if f.Model != "" {
		w = w.and("(r.model = ? OR r.answered_by = ?)", f.Model, f.Model)
	}
	if f.Candidate != "" {
		w = w.and("(r.candidate_1 = ? OR r.candidate_2 = ?)", f.Candidate, f.Candidate)
	}
	if f.Trial != 0 {
		w = w.and("r.trial = ?", f.Trial)
	}
	switch f.Order {
	case OrderForward:
		w = w.and("r.kind = 'pairwise' AND r.doc_id_1 <= r.doc_id_2")
	case OrderReverse:
		w = w.and("r.kind = 'pairwise' AND r.doc_id_1 > r.doc_id_2")
	}

	if f.Winner != "" {
		w = w.and(outcomeIn("pairwise_results", `(o.winner_doc_id = ?
  OR CASE o.winner_doc_id WHEN o.doc_id_1 THEN o.candidate_1 WHEN o.doc_id_2 THEN o.candidate_2 END = ?)`), f.Winner, f.Winner)
	}
	if f.Text != "" {
		w = w.plus(saying(f.Text))
	}
	return w
}

// outcomeIn returns the condition that run r has a row in a table of outcomes that meets a
// condition. It counts rows, because PostgreSQL turns an EXISTS into a join with the whole table.
func outcomeIn(table, condition string) string {
	return "(SELECT count(*) FROM " + table + " o WHERE o.evaluation = r.evaluation AND o.id = r.phase || '.' || " +
		"r.index_ AND " + condition + ") > 0"
}

// saying returns the condition that run r's outcome contains a text. Both databases ignore case for
// ASCII letters only.
func saying(text string) where {
	const in = " LIKE ? ESCAPE '!'"
	pattern := func(text string) string {
		return "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(lowerASCII(text)) + "%"
	}
	quoted, _ := json.Marshal(text) // in the form in which the column stores answers
	plain, inJSON := pattern(text), pattern(string(quoted[1:len(quoted)-1]))
	return where{}.and("(lower(r.error)"+in+" OR CASE r.kind"+
		" WHEN 'pairwise' THEN "+outcomeIn("pairwise_results", "lower(o.reason)"+in)+
		" WHEN 'single' THEN "+outcomeIn("single_doc_results", "lower(o.reason)"+in)+
		" WHEN 'panel' THEN "+outcomeIn("panel_results", "lower(o.argument)"+in)+
		" ELSE "+outcomeIn("responses", "(lower(o.answer)"+in+" OR lower(o.answers)"+in+")")+" END)",
		plain, plain, plain, plain, plain, inJSON)
}

func lowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// key returns the order of a search: its columns, the comparisons for runs after a mark and up to a
// mark, and the ORDER BY.
func (s Search) key() (columns, behind, upTo, sorted string) {
	if s.Newest {
		return "r.ended_at, r.phase, r.index_", "<", ">=", "r.ended_at DESC, r.phase DESC, r.index_ DESC"
	}
	return "r.phase, r.index_", ">", "<=", "r.phase, r.index_"
}

// compareMark returns the condition that compares a run's position with a mark. If the search names
// documents, it uses the position of a run that shows them: PostgreSQL assumes that few runs are
// after a mark, and would otherwise begin with all that are.
func (s Search) compareMark(compare string, m *Mark) where {
	columns, _, _, _ := s.key()
	switch {
	case s.Newest:
		return where{}.and("("+columns+") "+compare+" (?, ?, ?)", stamp{m.Ended}, m.Phase, m.Index)
	case len(s.Documents) > 0:
		columns = "s.phase, s.index_"
	}
	return where{}.and("("+columns+") "+compare+" (?, ?)", m.Phase, m.Index)
}

// Search returns a page of runs.
func (r *reader) Search(ctx context.Context, id eval.ID, s Search) (Page, error) {
	if s.Most < 1 || s.Most > MostFound {
		return Page{}, fmt.Errorf("search for %d runs at once, want 1 to %d", s.Most, MostFound)
	}
	matching, end, err := r.within(ctx, id, s)
	if err != nil {
		return Page{}, err
	}

	_, _, _, sorted := s.key()
	page := Page{Next: end}
	page.Runs, err = collect(rows(ctx, &r.access, scanRunRow, "WITH page AS (SELECT r.evaluation, r.phase, r.index_ "+
		"FROM "+matching.from+" WHERE "+matching.text+" ORDER BY "+sorted+" LIMIT ?)\nSELECT "+
		runColumns+" FROM page JOIN runs r ON r.evaluation = page.evaluation AND r.phase = page.phase AND r.index_ = page.index_"+
		" LEFT JOIN calls c ON c.evaluation = r.evaluation AND c.phase = r.phase AND c.index_ = r.index_"+
		" GROUP BY r.evaluation, r.phase, r.index_ ORDER BY "+sorted, append(matching.args, s.Most+1)...))
	if err != nil {
		return Page{}, err
	}
	if len(page.Runs) > s.Most {
		page.Runs = page.Runs[:s.Most]
		last := page.Runs[s.Most-1]
		page.Next = &Mark{Phase: last.Phase, Index: last.Index, Ended: last.Ended}
	}
	return page, r.outcomes(ctx, id, page.Runs)
}

// SearchCount counts the runs that match a filter, within the bounds of a search; exact is
// false when there are or may be more.
func (r *reader) SearchCount(ctx context.Context, id eval.ID, f Filter) (n int, exact bool, err error) {
	matching, end, err := r.within(ctx, id, Search{Filter: f})
	if err != nil {
		return 0, false, err
	}
	// Sorted, because PostgreSQL would otherwise read the whole table for a condition without an
	// index.
	err = r.one(ctx, "SELECT count(*) FROM (SELECT 1 FROM "+matching.from+" WHERE "+matching.text+" ORDER BY r.phase, "+
		"r.index_ LIMIT ?) AS found",
		append(matching.args, MostLooked+1)...).Scan(&n)
	if err != nil {
		return 0, false, r.unread(err)
	}
	return min(n, MostLooked), end == nil && n <= MostLooked, nil
}

// within returns the condition of a search, and the last run that it looks at; nil if it looks at
// all runs.
func (r *reader) within(ctx context.Context, id eval.ID, s Search) (matching where, end *Mark, err error) {
	columns, behind, upTo, sorted := s.key()
	indexed, looked := s.found(id, r.using)
	if s.After != nil {
		indexed = indexed.plus(s.compareMark(behind, s.After))
	}
	if looked.text == "" {
		return indexed, nil, nil
	}
	end = new(Mark)
	into := []any{&end.Phase, &end.Index}
	var ended stamp
	if s.Newest {
		into = append([]any{&ended}, into...)
	}
	err = r.one(ctx, "SELECT "+columns+" FROM "+indexed.from+" WHERE "+indexed.text+" ORDER BY "+sorted+" LIMIT 1 OFFSET ?",
		append(indexed.args, r.looks-1)...).Scan(into...)
	end.Ended = ended.Time
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return indexed.plus(looked), nil, nil
	case err != nil:
		return where{}, nil, r.unread(err)
	}

	return indexed.plus(s.compareMark(upTo, end)).plus(looked), end, nil
}
