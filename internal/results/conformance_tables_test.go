package results

import (
	"maps"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/table"
)

// csvOf returns an evaluation's tables as CSV, by name.
func csvOf(t *testing.T, r Reader, id eval.ID) map[string]string {
	t.Helper()
	e, err := r.Evaluation(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, sheet := range plain(t.Context(), r, e) {
		var out strings.Builder
		if err := table.CSV.Write(sheet, &out); err != nil {
			t.Fatal(err)
		}
		all[sheet.Name] = out.String()
	}
	return all
}

func wantLine(t *testing.T, of, text, line string) {
	t.Helper()
	if !strings.Contains("\n"+text, "\n"+line+"\n") {
		t.Errorf("%s has no line %q:\n%s", of, line, text)
	}
}

// The tables unite judges and agents, judges and people, and texts and answers.
func testTables(t *testing.T, url string) {
	db, e := openStore(t, url)
	e, texts := withVotes(
		e, eval.Vote{Annotator: "anna", First: "b.md", Second: "a.md", Winner: "b.md"},
		eval.Vote{Annotator: "bo", First: "c.md", Second: "b.md", Winner: eval.Tie},
	)
	e.Plan.Panel = &eval.Panel{}
	if err := db.PutEvaluation(t.Context(), e, maps.All(texts)); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, db, e.ID, opinion(0, 0, eval.StateSucceeded, 2), opinion(1, 0, eval.StateFailed, 0), verdict(10), verdict(1), failure(2, 0))

	all := csvOf(t, db, e.ID)
	wantLine(t, "answers", all["answers"], ",b.md,q1,Which is better?,b,,,given,,1,The text of b.,,")
	wantLine(t, "scores", all["scores"], "r0-0,q1,a,a.md,prosecutor,clarity,2,because,openai:gpt-5-mini,openai:gpt-5-mini,,2026-01-02T03:04:06.678Z,")
	if strings.Contains(all["scores"], "r0-1") {
		t.Errorf("a run that failed has a score:\n%s", all["scores"])
	}
	wantLine(t, "verdicts", all["verdicts"],
		"r1-1,q1,b,a,b.md,a.md,second,a,judge,strict,openai:gpt-5-mini,openai:gpt-5-mini-2026,1,reverse,Reason 1.,2026-01-02T03:04:07.678Z")
	wantLine(t, "verdicts", all["verdicts"], ",q1,a,b,a.md,b.md,second,b,person,anna,,,,,,")
	wantLine(t, "verdicts", all["verdicts"], ",q1,b,c,b.md,c.md,tie,,person,bo,,,,,,")

	calls := all["calls"]
	wantLine(t, "calls", calls, "r1-2,1.2.0-w7k2p9qa-1,verdict,openai:gpt-5-mini,1,false,,timeout,timeout: no answer in 2m0s,"+
		",,,,,,,0,1,,w7k2p9qa,,2026-01-02T03:04:07.678Z,2026-01-02T03:04:07.678Z,2026-01-02T03:04:08.678Z")
	if strings.Index(calls, "\nr1-1,") > strings.Index(calls, "\nr1-2,") || strings.Index(calls, "\nr1-2,") > strings.Index(calls, "\nr1-10,") {
		t.Errorf("calls are not in the order of their runs:\n%s", calls)
	}
}

// A listed run has a line in the table of answers whether it was answered or not.
func testTableOfAnswers(t *testing.T, url string) {
	db, e := putLetters(t, url)
	several := answered(2, "")
	several.Run.Answers = []string{"First.", "Second."}
	mustAppend(t, db, e.ID, answered(0, "One"), unanswered(1, 0), several)

	answers := csvOf(t, db, e.ID)["answers"]
	wantLine(t, "answers", answers, "r0-0,z1,,,openai:gpt-5-mini,openai:gpt-5-mini,openai:gpt-5-mini,succeeded,,1,One,stop,2026-01-02T03:04:06.678Z")
	wantLine(t, "answers", answers, "r0-1,a2,,,google:gemini-2.5-flash,google:gemini-2.5-flash,,failed,refused,,,,2026-01-02T03:04:07.678Z")
	wantLine(t, "answers", answers, "r0-2,m3,,,openai:gpt-5-mini,openai:gpt-5-mini,openai:gpt-5-mini,succeeded,,2,Second.,stop,2026-01-02T03:04:08.678Z")
}
