package report

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
)

// Run returns one of the responses.
func (m *memory) Run(_ context.Context, run eval.RunID) (results.RunRow, bool, error) {
	for _, row := range m.responses {
		if row.Phase == run.Phase && row.Index == run.Index {
			return row, true, nil
		}
	}
	return results.RunRow{}, false, nil
}

func answersOf(t testing.TB, m *memory) string {
	t.Helper()
	var out bytes.Buffer
	if err := built(t, m, Options{Draws: 20}).WriteAnswers(t.Context(), &out, m); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// resultIn returns the words of the grid's cell that links to an answer.
func resultIn(page, id string) string {
	found := regexp.MustCompile(`<a href="#` + regexp.QuoteMeta(id) + `" aria-label="[^"]*">([^<]*)</a>`).FindStringSubmatch(page)
	if found == nil {
		return "no cell"
	}
	return found[1]
}

// textsOf returns the texts that are open for an item of the page.
func textsOf(t *testing.T, page, item string) string {
	t.Helper()
	_, after, found := strings.Cut(page, `<article class="item" id="`+item+`"`)
	if !found {
		t.Fatalf("the page has no %s", item)
	}
	text, _, _ := strings.Cut(after, "</article>")
	return text
}

// TestAnswersOfPairs: each answer is below its question, with the verdicts and scores on it.
func TestAnswersOfPairs(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan([]string{"a", "b"}, []string{"q1", "q2"}, "j"))
	m.evaluation.Plan.Items[1].Reference = "The right one."
	m.verdict(0, "q1/a", "q1/b", "q1/a", "")
	m.verdict(0, "q1/b", "q1/a", eval.Tie, "")
	m.verdict(0, "q2/a", "q2/b", "q2/b", "")
	page := answersOf(t, m)
	for id, want := range map[string]string{"item-1-1": "1–0–1", "item-1-2": "0–1–1", "item-2-1": "0–1", "item-2-2": "1–0", "item-2-3": "no cell"} {
		if got := resultIn(page, id); got != want {
			t.Errorf("cell of %s: got %q, want %q", id, got, want)
		}
	}
	second := textsOf(t, page, "item-2")
	for _, want := range []string{"What about q2?", "The right one.", "The text of " + m.evaluation.Plan.Documents[2].Hash + ".", "The text of " + m.evaluation.Plan.Documents[3].Hash + "."} {
		if !strings.Contains(second, want) {
			t.Errorf("the second question lacks %q", want)
		}
	}
	if !strings.Contains(page, "2 questions with the answers of 2 candidates") {
		t.Error("the page does not say what it shows")
	}
	if !strings.Contains(page, BaseStyle()) {
		t.Error("the page has not the style of reports")
	}
	if report := pageOf(t, built(t, m, Options{Draws: 20})); !strings.Contains(report, `<a href="answers.html">`) {
		t.Error("the report does not link to its answers")
	}
}

func TestAnswersOfScores(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan([]string{"a", "b"}, []string{"q1"}, "j")).withScores("style")
	m.singles[0].Score, m.singles[1].Score = 5, 2
	page := answersOf(t, m)
	if got := resultIn(page, "item-1-1") + resultIn(page, "item-1-2"); got != "5.02.0" {
		t.Errorf("scores: got %q, want 5.0 and 2.0", got)
	}
	if !strings.Contains(page, `<td class="s10"><a href="#item-1-1"`) {
		t.Error("the best possible score does not have the strongest shade")
	}
}

// TestAnswersOfListedRuns: models side by side for the same files; a run without an answer says why.
func TestAnswersOfListedRuns(t *testing.T) {
	t.Parallel()
	m := listedSource()
	m.evaluation.Plan.Runs.Files[0].Hash, m.evaluation.Plan.Runs.Files[1].Hash = "instructions", "input"
	for k := range m.evaluation.Plan.Runs.List {
		m.evaluation.Plan.Runs.List[k].FileB = 1
	}
	m.responses[0].Answer = "Dear **all**,"
	page := answersOf(t, m)
	text := textsOf(t, page, "item-1")
	for _, want := range []string{
		"The text of instructions.", "The text of input.", "Dear **all**,", "The run failed: no search was made", "The answer is empty.", "The run has no result.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the answers lack %q", want)
		}
	}
	if !strings.Contains(page, "1 prompt with the answers of 3 models") || strings.Contains(page, "judge") {
		t.Error("the page does not speak of prompts and models")
	}
}

// TestAnswersOfPrompts: the prompt is shown in words, not as the line in which it was written, and prompts with the
// same words share a row.
func TestAnswersOfPrompts(t *testing.T) {
	t.Parallel()
	line := func(id, model string) string {
		return fmt.Sprintf(`{"id":%q,"api":"test","model_name":%q,"prompt":"What is the capital of France?"}`, id, model)
	}
	m := sourceOf(&eval.Evaluation{Name: "capitals", Items: []eval.Item{{}}, Prompts: &eval.Prompts{
		Format: eval.PromptsExperiment,
		Models: []eval.Judge{{Name: "test:one", Provider: "test", Model: "one"}, {Name: "test:two", Provider: "test", Model: "two"}},
		Rows:   []eval.Document{{ID: "line 1", Hash: "h1"}, {ID: "line 2", Hash: "h2"}},
		List:   []eval.Prompt{{ID: "france-1"}, {ID: "france-2", Model: 1, Row: 1}},
	}})
	m.texts = map[string]string{"h1": line("france-1", "one"), "h2": line("france-2", "two")}
	m.counts = []results.PhaseCounts{{Kind: eval.KindPrompts, Runs: 2, Succeeded: 2}}
	for k, answer := range []string{"Paris.", "It is Paris."} {
		m.responses = append(m.responses, results.RunRow{Run: record.Run{Index: k, Kind: eval.KindPrompts, State: "succeeded", Model: "test:one", Answer: answer}})
	}
	page := answersOf(t, m)
	text := textsOf(t, page, "item-1")
	for _, want := range []string{"What is the capital of France?</div>", "Paris.", "It is Paris.", "test:one", "test:two", "france-1", "france-2"} {
		if !strings.Contains(text, want) {
			t.Errorf("the prompt lacks %q", want)
		}
	}
	if strings.Contains(page, "line 1") || strings.Contains(page, "model_name") {
		t.Error("the page shows how prompts are written")
	}
	if got := resultIn(page, "item-1-2"); got != "answered" {
		t.Errorf("the second answer's cell is %q", got)
	}
}

// TestAnswersAreBounded: however many candidates, questions and long texts there are, the page stays small, and says
// what it leaves out.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	questions := make([]string, 500)
	if testing.Short() {
		questions = questions[:150]
	}
	for k := range questions {
		questions[k] = fmt.Sprintf("q%03d", k)
	}
	m := sourceOf(plan(names(300), questions, "j"))
	m.texts = map[string]string{}
	for k, d := range m.evaluation.Plan.Documents {
		m.texts[d.Hash] = strings.Repeat("<words> ", 125) // 1 kB, longer when escaped
		if k == 0 {
			m.texts[d.Hash] = strings.Repeat("x", 1<<20)
		}
	}
	page := answersOf(t, m)
	if len(page) > 9<<20 {
		t.Errorf("the page has %d bytes, want at most 9 MiB", len(page))
	}
	t.Logf("300 candidates × 500 questions: %d bytes, %d questions", len(page), strings.Count(page, "<article"))
	if strings.Contains(page, strings.Repeat("x", answerRunes+1)) || !strings.Contains(page, "The text is longer.") {
		t.Error("a text of a megabyte is whole, or nothing says that it is not")
	}
	if !regexp.MustCompile(`Here are 1 to \d+ of \d+ questions with the answers of 1 to 40 of 300 candidates\.`).MatchString(page) {
		t.Error("the page does not say what it leaves out")
	}
}

// TestServedAnswersLeadToAll: the parts of the served page together have every answer once.
func TestServedAnswersLeadToAll(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan(names(50), []string{"q1", "q2", "q3"}, "j"))
	m.texts = map[string]string{}
	for _, d := range m.evaluation.Plan.Documents {
		m.texts[d.Hash] = d.ID + strings.Repeat(" long", 4_000)
	}
	r := built(t, m, Options{Draws: 20})
	seen, todo, asked := map[string]int{}, []AnswersWindow{{}}, map[AnswersWindow]bool{}
	for len(todo) > 0 {
		window := todo[0]
		todo = todo[1:]
		if asked[window] {
			continue
		}
		asked[window] = true
		var out bytes.Buffer
		if err := r.WriteServedAnswers(t.Context(), &out, m, window); err != nil {
			t.Fatal(err)
		}
		for _, d := range m.evaluation.Plan.Documents {
			if strings.Contains(out.String(), ">"+d.ID+" long") {
				seen[d.ID]++
			}
		}
		for _, link := range regexp.MustCompile(`"answers\?row=(\d+)&amp;column=(\d+)"`).FindAllStringSubmatch(out.String(), -1) {
			var next AnswersWindow
			if _, err := fmt.Sscan(link[1]+" "+link[2], &next.Row, &next.Column); err != nil {
				t.Fatal(err)
			}
			todo = append(todo, next)
		}
	}
	if len(seen) != 150 || len(asked) < 4 {
		t.Errorf("%d parts show %d of 150 answers", len(asked), len(seen))
	}
}

// hostileAnswers is an evaluation whose names, questions and answers are all hostile.
func hostileAnswers() *memory {
	m := sourceOf(plan(hostile, []string{`q</script><script>alert(1)</script>`, "q\u202e2"}, "j"))
	m.texts = map[string]string{}
	m.evaluation.Plan.Name = `</title><script>alert(0)</script>`
	for k, d := range m.evaluation.Plan.Documents {
		m.texts[d.Hash] = hostile[k%len(hostile)] + "\n[click](javascript:alert(3)) ![x](http://example.com/x.png) <b>bold</b> <!-- --!> ]]> &lt;\n" + strings.Repeat("*_`[", 50)
	}
	m.evaluation.Plan.Items[0].Question = strings.Repeat("</article></script><!--", 1000)
	return m
}

func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	page := answersOf(t, hostileAnswers())
	head, script, found := strings.Cut(page, "<script>")
	if !found || strings.Count(page, "<script") != 1 || !strings.HasSuffix(script, "</script>\n</body>\n</html>\n") {
		t.Fatal("the page does not have exactly one script, at its end")
	}
	script, _, _ = strings.Cut(script, "</script>")
	sum := sha256.Sum256([]byte(script))
	policy := regexp.MustCompile(`http-equiv="Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)
	own := "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
	if policy == nil || html.UnescapeString(policy[1]) != own {
		t.Errorf("the policy %q does not permit just the page's script", policy)
	}

	element := regexp.MustCompile(`^<(html|head|meta|title|style|body|header|h[1-4]|div|p|b|section|article|nav|a|main|table|thead|tbody|tr|th|td|code|bdi|span|footer|br|kbd|noscript)[ />]`)
	handler := regexp.MustCompile(`(?i)[ "'/]on[a-z]+ *=`)
	quoted := regexp.MustCompile(`"[^"]*"`)
	for _, tag := range regexp.MustCompile(`<[a-zA-Z][^>]*>`).FindAllString(head, -1) {
		if !element.MatchString(tag) || handler.MatchString(quoted.ReplaceAllString(tag, `""`)) {
			t.Errorf("a tag that the template does not have: %.200s", tag)
		}
	}
	for _, r := range head {
		if r != '\n' && r != '\t' && r != '\u200c' && r != '\u200d' && r != '\u00a0' && !unicode.IsPrint(r) {
			t.Fatalf("the page contains %U", r)
		}
	}
	for _, sink := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "srcdoc", ".href ="} {
		if strings.Contains(script, sink) {
			t.Errorf("the script uses %s, which can turn a text into markup", sink)
		}
	}
}
