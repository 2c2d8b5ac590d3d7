package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
)

const voted3 = "documents: {jsonl: a.jsonl}\nvotes: "

// answers of three candidates to q1 and of two to q2, whose names are letters the
// wrong way round.
var voteAnswers = map[string]string{"a.jsonl": `{"item":"q1","candidate":"x","text":"1"}
{"item":"q1","candidate":"y","text":"2"}
{"item":"q1","candidate":"z","id":"third","text":"3"}
{"item":"q2","candidate":"a","text":"4"}
{"item":"q2","candidate":"b","text":"5"}
{"item":"q3","candidate":"x","text":"6"}
{"item":"q3","candidate":"x","id":"again","text":"7"}
`}

// A name that a spreadsheet would take for a formula has an apostrophe in an exported file. It stays one person's name,
// whose votes count once.
func TestNamesOfExportedVotes(t *testing.T) {
	t.Parallel()
	text := "item,candidate_a,candidate_b,winner_doc_id,annotator\nq1,x,y,q1/y,'=anna\nq1,x,y,q1/y,'bo\n"
	s := load(t, with(voteAnswers, "eval.yaml", voted3+"v.csv\n", "v.csv", text), Options{})
	want := []eval.Vote{
		{Annotator: "'bo", First: "q1/x", Second: "q1/y", Winner: "q1/y"},
		{Annotator: "=anna", First: "q1/x", Second: "q1/y", Winner: "q1/y"},
	}
	if diff := cmp.Diff(want, votesOf(t, s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func votesOf(t *testing.T, s *Submission) []eval.Vote {
	t.Helper()
	votes, err := eval.DecodeVotes(s.Texts[s.Settings.Votes])
	if err != nil {
		t.Fatal(err)
	}
	return votes
}

func TestVotes(t *testing.T) {
	t.Parallel()
	said := []eval.Vote{
		{Annotator: "anna", First: "q1/x", Second: "q1/y", Winner: "q1/y"},
		{Annotator: "bo", First: "q1/x", Second: "q1/y", Winner: eval.Tie},
		{Annotator: "bo", First: "q1/x", Second: "third", Winner: "third"},
	}
	unsigned := []eval.Vote{{Annotator: "people", First: "q1/x", Second: "q1/y", Winner: "q1/x"}}
	for name, c := range map[string]struct {
		file, text string
		want       []eval.Vote
	}{
		"a column each":     {"v.csv", "item,candidate_a,candidate_b,anna,bo\nq1,x,y,2,0\nq1,z,x,,1\n", said},
		"other order":       {"v.csv", "bo,candidate_a,anna,candidate_b,item\n1,z,,x,q1\n0,x,2,y,q1\n", said},
		"a verdict a row":   {"v.csv", "item,candidate_a,candidate_b,winner,annotator,note\nq1,x,y,y,anna,\nq1,x,y,tie,bo,\"so, so\"\nq1,z,x,third,bo,\n", said},
		"as exported":       {"v.csv", "annotator,item,candidate_a,candidate_b,winner_doc_id\nanna,q1,x,y,q1/y\nbo,q1,y,x,tie\nbo,q1,x,z,third\n", said},
		"letters":           {"v.csv", "item,candidate_a,candidate_b,winner,annotator\nq1,y,x,a,anna\nq1,x,y, tie ,bo\nq1,x,z,b,bo\n", said},
		"lines of verdicts": {"v.jsonl", `{"item":"q1","candidate_a":"x","candidate_b":"y","winner":"y","annotator":"anna"}` + "\n\n" + `{"item":"q1","candidate_a":"x","candidate_b":"y","winner":0,"annotator":"bo"}` + "\n" + `{"item":"q1","candidate_a":"z","candidate_b":"x","winner":"a","annotator":"bo"}`, said},
		"lines of people":   {"v.jsonl", `{"item":"q1","candidate_a":"x","candidate_b":"y","anna":2,"bo":0}` + "\n" + `{"item":"q1","candidate_a":"z","candidate_b":"x","anna":null,"bo":1}`, said},
		"no annotator":      {"v.csv", "item,candidate_a,candidate_b,winner\nq1,x,y,x\n", unsigned},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := load(t, with(voteAnswers, "eval.yaml", voted3+c.file+"\n", c.file, c.text), Options{})
			if diff := cmp.Diff(c.want, votesOf(t, s)); diff != "" {
				t.Errorf("votes (-want +got):\n%s", diff)
			}
		})
	}
}

// What people said is not what is asked.
func TestVotesAreNoPartOfTheIdentity(t *testing.T) {
	t.Parallel()
	files := with(voteAnswers, "v.csv", "item,candidate_a,candidate_b,winner\nq1,x,y,x\n", "w.csv", "item,candidate_a,candidate_b,winner\nq1,x,y,y\n")
	const asked = "judges: [simulator:careful]\npairwise: {}\ndocuments: {jsonl: a.jsonl}\n"
	var ids, votes []string
	for _, file := range []string{asked, asked + "votes: v.csv\n", asked + "votes: w.csv\n"} {
		s := load(t, with(files, "eval.yaml", file), Options{})
		ids, votes = append(ids, string(s.Evaluation.ID())), append(votes, s.Settings.Votes)
	}
	if ids[0] != ids[1] || ids[0] != ids[2] || votes[0] != "" || votes[1] == votes[2] {
		t.Errorf("got ids %v of votes %q, want one id, and votes that differ", ids, votes)
	}
}

func TestVotesProblems(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, text, want string }{
		"rows": {"v.csv", "item,candidate_a,candidate_b,anna,bo\nq1,x,y,3,0\nq9,x,y,1,1\nq1,x,w,1,1\nq1,x,x,1,1\nq3,x,x,1,1\nq1,x,y,1,y\nq1,y,x,1,2\nq2,b,a,1,a\n", strings.Join([]string{
			`v.csv:2:8: anna: "3" is neither candidate of the pair; want 0 or tie, 1 or a, 2 or b, or the winner's name or id`,
			`v.csv:3:1: item: no document belongs to item "q9"`,
			`v.csv:4:6: candidate_b: item "q1" has no candidate "w"; known: x, y, z`,
			`v.csv:5:1: item: a document is compared with itself`,
			`v.csv:6:4: candidate_a: candidate "x" has 2 documents in item "q3"; give its documents different candidates`,
			`v.csv:7:10: bo: bo already judged the pair in line 2; name annotators in a column annotator, each once per pair`,
			`v.csv:8:8: anna: anna already judged the pair in line 7; name annotators in a column annotator, each once per pair`,
			`v.csv:8:10: bo: bo already judged the pair in line 2; name annotators in a column annotator, each once per pair`,
			`v.csv:9:10: bo: "a" is ambiguous; write q2/b or q2/a`,
		}, "\n")},
		"no verdict":      {"v.csv", "item,candidate_a,candidate_b,winner\nq1,x,y,\n", `v.csv:2:8: winner: "" is neither candidate of the pair; want 0 or tie, 1 or a, 2 or b, or the winner's name or id`},
		"no annotator":    {"v.csv", "item,candidate_a,candidate_b,winner,annotator\nq1,x,y,x,\n", `v.csv:2:10: annotator: "" cannot be an annotator's name; use at most 512 printable characters`},
		"no column":       {"v.csv", "item,candidate_a\nq1,x\n", "v.csv:1: the column candidate_b is missing; want the columns item,candidate_a,candidate_b"},
		"no verdicts":     {"v.csv", "item,candidate_a,candidate_b\nq1,x,y\n", "v.csv:1: there is no column with verdicts; add a column winner, or one for each annotator"},
		"annotator alone": {"v.csv", "item,candidate_a,candidate_b,annotator\nq1,x,y,anna\n", "v.csv:1: there is no column with verdicts; add a column winner, or one for each annotator"},
		"column twice":    {"v.csv", "item,candidate_a,candidate_b,anna,anna\nq1,x,y,1,2\n", `v.csv:1:35: anna: a second column has this name; give each column a unique name`},
		"column unnamed":  {"v.csv", "item,candidate_a,candidate_b,\nq1,x,y,1\n", `v.csv:1:30: column 4 has no name; give each column a unique name`},
		"no rows":         {"v.csv", "item,candidate_a,candidate_b,anna\n", "v.csv:1: there are no rows below the header"},
		"nothing said":    {"v.csv", "item,candidate_a,candidate_b,anna\nq1,x,y,\n", "v.csv: it contains no votes"},
		"no file":         {"w.csv", "", "v.csv: no such file"},
		"lines": {"v.jsonl", "{\"item\":\"q1\",\"candidate_a\":\"x\",\"candidate_b\":\"y\",\"winner\":true}\n{\"item\":\"q1\",\"candidat_a\":\"x\",\"candidate_b\":\"y\",\"winner\":1}\n[]\n{\"item\":\"q1\",\"candidate_a\":\"x\",\"candidate_b\":\"z\"}\n{\"item\":\"q1\",\"candidate_a\":\"x\",\"candidate_b\":\"y\",\"winner\":\"w\"}\n{\"item\":\"q1\",\"candidate_a\":\"x\",\"candidate_b\":\"y\",\"Winner\":\"x\"}", strings.Join([]string{
			`v.jsonl:1: winner: the value is neither; want text or a number`,
			`v.jsonl:2: candidate_a: the field is missing; did you mean candidat_a?`,
			`v.jsonl:3: not a JSON object: got array; write one JSON object per line`,
			`v.jsonl:5: winner: "w" is neither candidate of the pair; want 0 or tie, 1 or a, 2 or b, or the winner's name or id`,
			`v.jsonl:6: Winner: unknown column; rename it winner`,
		}, "\n")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			named := c.file
			if name == "no file" {
				named = "v.csv"
			}
			_, got := problemsOf(t, with(voteAnswers, "eval.yaml", voted3+named+"\n", c.file, c.text), Options{})
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
	for file, want := range map[string]string{
		"documents: {jsonl: a.jsonl}\nvotes: v.csv\njudges: [simulator:careful]\n": "eval.yaml: there is no question about the documents; add single, pairwise or panel",
		"votes: v.csv\n": `eval.yaml: documents are missing; add documents: ["docs/*.md"]`,
	} {
		if _, got := problemsOf(t, with(voteAnswers, "eval.yaml", file, "v.csv", "item,candidate_a,candidate_b,anna\nq1,x,y,1\n"), Options{}); got != want {
			t.Errorf("%q: got\n%s\nwant\n%s", file, got, want)
		}
	}
}

// Three people's verdicts on answers of five models, as they were published: six of
// the answers are not.
func TestPublishedVotes(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"eval.yaml": "documents: {jsonl: answers.jsonl, candidate: generator, text: output, question: instruction}\nvotes: human_votes.csv\n",
	}
	for _, name := range []string{"answers.jsonl", "human_votes.csv"} {
		text, err := os.ReadFile(filepath.Join("../../cmd/evalfleet/testdata/pandalm", name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	s := load(t, files, Options{})
	count := map[string]int{}
	for _, vote := range votesOf(t, s) {
		count[vote.Annotator]++
	}
	if diff := cmp.Diff(map[string]int{"vote_1": 993, "vote_2": 993, "vote_3": 993}, count); diff != "" {
		t.Errorf("votes by annotator (-want +got):\n%s", diff)
	}
	if n := len(s.Warnings); n == 0 || !strings.HasSuffix(s.Warnings[n-1].String(), "rows omitted because a candidate has no document for the item: 6, the first here") {
		t.Errorf("warnings: got %v, want one of 6 rows", s.Warnings)
	}
}
