package verdict_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/verdict"
)

// corpusCase is an answer, and what is to be read from it.
type corpusCase struct {
	Winner  string `json:"winner"`  // empty: none
	Reason  string `json:"reason"`  // a part of it
	Problem string `json:"problem"` // a part of it

	name, answer string
}

func corpus(t testing.TB) []corpusCase {
	t.Helper()
	content, err := os.ReadFile("testdata/answers.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []corpusCase
	for _, block := range strings.Split(string(content), "=== ")[1:] {
		name, rest, _ := strings.Cut(block, "\n")
		want, answer, _ := strings.Cut(rest, "\n")
		c := corpusCase{name: name, answer: strings.TrimSuffix(answer, "\n")}
		if err := json.Unmarshal([]byte(want), &c); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if (c.Winner == "") == (c.Problem == "") {
			t.Fatalf("%s: want a winner or a problem", name)
		}
		all = append(all, c)
	}
	return all
}

// TestAnswersOfOneReading reads every answer of the corpus, and requires the one right reading,
// or the true cause why there is none.
func TestAnswersOfOneReading(t *testing.T) {
	t.Parallel()
	all := corpus(t)
	if len(all) < 60 {
		t.Errorf("got %d answers, want 60 at least", len(all))
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			winner, reason, err := pairwise(c.answer, "a.md", "b.md", true)
			switch {
			case c.Problem != "" && (err == nil || !strings.Contains(err.Error(), c.Problem)):
				t.Errorf("Pairwise = %q, %v, want a problem with %q", winner, err, c.Problem)
			case c.Problem == "" && (err != nil || winner != c.Winner || !strings.Contains(reason, c.Reason)):
				t.Errorf("Pairwise = %q, %q, %v, want %q, %q", winner, reason, err, c.Winner, c.Reason)
			}
		})
	}
}

// Answers of lists of scores, and of listed runs, are read with the same repairs.
func TestEveryKindOfAnswerIsRepaired(t *testing.T) {
	t.Parallel()
	const list = "```json\n" + `{"evaluations": [{"criterion": "style", "score": 4, "reason": "uses \(x\)` + "\n" + `and <think>",}]}` + "\n```"
	scores, err := verdict.Single(list, []eval.Criterion{{Name: "style"}}, eval.Scale{Min: 1, Max: 5})
	if err != nil || len(scores) != 1 || scores[0].Score != 4 || scores[0].Reason != "uses \\(x\\)\nand <think>" {
		t.Errorf("Single = %+v, %v", scores, err)
	}

	object, err := verdict.Object("[THINK]{\"x\": 1}[/THINK]{\"note\": \"a\nb <think>\"}")
	if err != nil || string(object) != `{"note":"a\u000ab <think>"}` {
		t.Errorf("Object = %s, %v", object, err)
	}
	if object, err = verdict.Object(`{"note": "<think>"}`); err != nil || string(object) != `{"note": "<think>"}` {
		t.Errorf("Object = %s, %v", object, err)
	}
	if object, err = verdict.Object("{\"note\": \"a\nb\"} {\"note\": 2}"); err == nil {
		t.Errorf("Object = %s, want a problem: there are two", object)
	}

	const batch = `{"evaluations": [{"criterion_id": "d1", "score": 2, "argument": "\sqrt{2}"}, {"criterion_id": "d2", "sco`
	scores, corrupt := verdict.Batch(batch, []eval.Dimension{{ID: "d1"}, {ID: "d2"}}, eval.Scale{Min: 1, Max: 5})
	if len(scores) != 1 || scores[0].Reason != `\sqrt{2}` || len(corrupt) != 1 || !strings.HasPrefix(corrupt[0], `{"criterion_id": "d2"`) {
		t.Errorf("Batch = %+v, %q", scores, corrupt)
	}
}

// said finds what an answer gives as winner anywhere, and is no part of the program's reading.
var said = regexp.MustCompile(`"winner_doc_id"\s*:\s*"([a-z.]*)"`)

// FuzzReading requires of any text: what encoding/json reads is read as it does, and what it
// cannot read is read only where the text names one winner, outside of reasoning.
func FuzzReading(f *testing.F) {
	for _, c := range corpus(f) {
		f.Add(c.answer)
	}
	reasoning := regexp.MustCompile(`(?i)think|reasoning|thought|<\||◁`)
	f.Fuzz(func(t *testing.T, text string) {
		winner, _, err := pairwise(text, "a.md", "b.md", true)
		if err != nil {
			return
		}
		var strict struct {
			Winner string `json:"winner_doc_id"`
		}
		if json.Valid([]byte(text)) {
			if err := json.Unmarshal([]byte(text), &strict); err != nil || strings.TrimSpace(strict.Winner) != winner {
				t.Fatalf("Pairwise = %q; encoding/json reads %q, %v", winner, strict.Winner, err)
			}
			return
		}
		if reasoning.MatchString(text) {
			return
		}
		for _, match := range said.FindAllStringSubmatch(text, -1) {
			if other := match[1]; other != winner && slices.Contains([]string{"a.md", "b.md", eval.Tie}, other) {
				t.Fatalf("Pairwise = %q from a text that names %q, too: %s", winner, other, text)
			}
		}
		for _, another := range []string{"a.md", "b.md"} {
			two := text + ` {"winner_doc_id": "` + another + `", "reason": "r"}`
			if now, _, err := pairwise(two, "a.md", "b.md", true); another != winner && err == nil {
				t.Fatalf("Pairwise = %q from %s, which has two verdicts", now, two)
			}
		}
	})
}
