package eval_test

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
)

// essays asks everything there is to ask, in small.
func essays() *eval.Evaluation {
	e := &eval.Evaluation{
		Name: "essays",
		Items: []eval.Item{
			{ID: "q1", Question: "Why is the sky blue?"},
			{ID: "q2", Question: "Why is grass <green> & soft?"},
		},
		Judges: []eval.Judge{
			{Name: "strict", Provider: "openai", Model: "gpt-5-mini", Overrides: map[string]any{
				"reasoning_effort": "low", "max_completion_tokens": 2000, "temperature": 0.2,
			}},
			{Name: "ollama:llama3:8b", Provider: "ollama", Model: "llama3:8b"},
		},
		Single: &eval.Single{
			Criteria: []eval.Criterion{{Name: "factuality"}, {Name: "style", Description: "How it reads."}},
			Scale:    eval.Scale{Min: 1, Max: 5},
			Trials:   1,
		},
		Pairwise: &eval.Pairwise{
			Pairs:  eval.Pairs{Mode: eval.PairsListed, Listed: [][2]int{{0, 1}, {3, 2}}},
			Order:  eval.OrderBoth,
			Trials: 2,
		},
		JSON: eval.JSONAuto,
	}
	for _, d := range []struct {
		id   string
		item int
		text string
	}{{"q1/ann", 0, "one"}, {"q1/bob", 0, "two"}, {"q2/ann", 1, "three"}, {"q2/bob", 1, "four"}} {
		e.Documents = append(e.Documents, eval.Document{
			ID: d.id, Item: d.item, Candidate: d.id[3:], Hash: eval.TextHash(d.text), Bytes: len(d.text),
		})
	}
	return e
}

// withRuns lists a run besides, in the last item.
func withRuns(change func(*eval.Evaluation)) func(*eval.Evaluation) {
	return func(e *eval.Evaluation) {
		e.Items = append(e.Items, eval.Item{})
		e.Runs = &eval.Runs{
			Models: []eval.Judge{{Name: "openai:gpt-5-mini", Provider: "openai", Model: "gpt-5-mini"}},
			Files: []eval.Document{
				{ID: "a.md", Item: len(e.Items) - 1, Candidate: "a.md", Hash: eval.TextHash("do")},
				{ID: "b.md", Item: len(e.Items) - 1, Candidate: "b.md", Hash: eval.TextHash("it")},
			},
			List: []eval.FileRun{{ID: "r1", FileB: 1}},
		}
		change(e)
	}
}

// withPrompts asks a prompt besides, in the last item.
func withPrompts(change func(*eval.Evaluation)) func(*eval.Evaluation) {
	return func(e *eval.Evaluation) {
		e.Items = append(e.Items, eval.Item{})
		e.Prompts = &eval.Prompts{
			Format: eval.PromptsExperiment,
			Models: []eval.Judge{{Name: "google:gemini-2.5-flash", Provider: "google", Model: "gemini-2.5-flash"}},
			Rows:   []eval.Document{{ID: "line 1", Item: len(e.Items) - 1, Candidate: "line 1", Hash: eval.TextHash(`{"prompt":"x"}`)}},
			List:   []eval.Prompt{{ID: "0"}},
		}
		change(e)
	}
}

func normalized(change func(*eval.Evaluation)) *eval.Evaluation {
	e := essays()
	change(e)
	e.Normalize()
	return e
}

// TestGoldenID fails when the identity of evaluations changes: every stored evaluation would
// then be asked, and paid for, again.
func TestGoldenID(t *testing.T) {
	t.Parallel()
	if got, want := normalized(func(*eval.Evaluation) {}).ID(), eval.ID("ev-beerkh2453xo"); got != want {
		t.Errorf("ID = %s, want %s", got, want)
	}
}

func TestIDForm(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^ev-[a-z2-7]{12}$`)
	for i := range 100 {
		e := normalized(func(e *eval.Evaluation) { e.Name = strings.Repeat("x", i) })
		if !form.MatchString(string(e.ID())) {
			t.Errorf("ID = %q, want %s", e.ID(), form)
		}
	}
}

func TestIDDependsOnEverythingAsked(t *testing.T) {
	t.Parallel()
	seen := map[eval.ID]string{}
	for name, change := range map[string]func(*eval.Evaluation){
		"nothing":               func(*eval.Evaluation) {},
		"name":                  func(e *eval.Evaluation) { e.Name = "letters" },
		"again":                 func(e *eval.Evaluation) { e.Again = "2" },
		"item":                  func(e *eval.Evaluation) { e.Items[0].ID = "q0" },
		"question":              func(e *eval.Evaluation) { e.Items[0].Question += "?" },
		"document id":           func(e *eval.Evaluation) { e.Documents[0].ID = "q1/amy" },
		"document item":         func(e *eval.Evaluation) { e.Documents[0].Item = 1 },
		"candidate":             func(e *eval.Evaluation) { e.Documents[0].Candidate = "amy" },
		"text":                  func(e *eval.Evaluation) { e.Documents[0].Hash = eval.TextHash("zero") },
		"one document less":     func(e *eval.Evaluation) { e.Documents, e.Pairwise.Pairs.Listed = e.Documents[:3], [][2]int{{0, 1}} },
		"judge name":            func(e *eval.Evaluation) { e.Judges[0].Name = "mild" },
		"judge provider":        func(e *eval.Evaluation) { e.Judges[0].Provider = "azure-openai" },
		"judge model":           func(e *eval.Evaluation) { e.Judges[0].Model = "gpt-5" },
		"judge setting":         func(e *eval.Evaluation) { e.Judges[0].Overrides["temperature"] = 0 },
		"judge order":           func(e *eval.Evaluation) { e.Judges[0], e.Judges[1] = e.Judges[1], e.Judges[0] },
		"no single":             func(e *eval.Evaluation) { e.Single = nil },
		"criterion":             func(e *eval.Evaluation) { e.Single.Criteria[0].Name = "truth" },
		"criterion description": func(e *eval.Evaluation) { e.Single.Criteria[1].Description = "" },
		"criteria order": func(e *eval.Evaluation) {
			c := e.Single.Criteria
			c[0], c[1] = c[1], c[0]
		},
		"scale":             func(e *eval.Evaluation) { e.Single.Scale.Max = 10 },
		"single trials":     func(e *eval.Evaluation) { e.Single.Trials = 2 },
		"single template":   func(e *eval.Evaluation) { e.Single.Template = "[[documents]]" },
		"no pairwise":       func(e *eval.Evaluation) { e.Pairwise = nil },
		"all pairs":         func(e *eval.Evaluation) { e.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsAll} },
		"sampled pairs":     func(e *eval.Evaluation) { e.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsSample, Sample: 0.5} },
		"another sample":    func(e *eval.Evaluation) { e.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsSample, Sample: 0.6} },
		"swiss":             func(e *eval.Evaluation) { e.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsSwiss, Share: 0.4} },
		"another share":     func(e *eval.Evaluation) { e.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsSwiss, Share: 0.5} },
		"the best":          func(e *eval.Evaluation) { e.Pairwise.TopN = 2 },
		"other pairs":       func(e *eval.Evaluation) { e.Pairwise.Pairs.Listed[1] = [2]int{2, 3} },
		"order":             func(e *eval.Evaluation) { e.Pairwise.Order = eval.OrderRandom },
		"pairwise trials":   func(e *eval.Evaluation) { e.Pairwise.Trials = 1 },
		"ties":              func(e *eval.Evaluation) { e.Pairwise.Ties = true },
		"pairwise template": func(e *eval.Evaluation) { e.Pairwise.Template = "[[documents]]" },
		"json":              func(e *eval.Evaluation) { e.JSON = eval.JSONFalse },
		"grounding":         func(e *eval.Evaluation) { e.Grounding = eval.Required },
		"reasoning":         func(e *eval.Evaluation) { e.Reasoning = eval.Required },
		"anchors":           func(e *eval.Evaluation) { e.Anchors = &eval.Anchors{Of: "ev-aaaaaaaaaaaa"} },
		"anchors of others": func(e *eval.Evaluation) { e.Anchors = &eval.Anchors{Of: "ev-bbbbbbbbbbbb"} },

		"runs":                   withRuns(func(*eval.Evaluation) {}),
		"runs without grounding": withRuns(func(e *eval.Evaluation) { e.Grounding = eval.Off }),
		"run id":                 withRuns(func(e *eval.Evaluation) { e.Runs.List[0].ID = "first" }),
		"run model":              withRuns(func(e *eval.Evaluation) { e.Runs.Models[0].Model = "gpt-5" }),
		"run setting":            withRuns(func(e *eval.Evaluation) { e.Runs.Models[0].Overrides = map[string]any{"seed": 1} }),
		"run file":               withRuns(func(e *eval.Evaluation) { e.Runs.Files[1].Hash = eval.TextHash("else") }),
		"run files":              withRuns(func(e *eval.Evaluation) { e.Runs.List[0].FileA, e.Runs.List[0].FileB = 1, 0 }),
		"one run more":           withRuns(func(e *eval.Evaluation) { e.Runs.List = append(e.Runs.List, eval.FileRun{ID: "r2", FileB: 1}) }),

		"prompts":         withPrompts(func(*eval.Evaluation) {}),
		"prompts' format": withPrompts(func(e *eval.Evaluation) { e.Prompts.Format = eval.PromptsBatch }),
		"prompt id":       withPrompts(func(e *eval.Evaluation) { e.Prompts.List[0].ID = "1" }),
		"prompt model":    withPrompts(func(e *eval.Evaluation) { e.Prompts.Models[0].Model = "gemini-2.5-pro" }),
		"prompt text":     withPrompts(func(e *eval.Evaluation) { e.Prompts.Rows[0].Hash = eval.TextHash(`{"prompt":"y"}`) }),
		"prompt row":      withPrompts(func(e *eval.Evaluation) { e.Prompts.Rows[0].ID = "line 2" }),
		"one prompt more": withPrompts(func(e *eval.Evaluation) { e.Prompts.List = append(e.Prompts.List, eval.Prompt{ID: "1"}) }),
	} {
		id := normalized(change).ID()
		if other, ok := seen[id]; ok {
			t.Errorf("%q and %q have the same id %s", name, other, id)
		}
		seen[id] = name
	}

	e := normalized(func(e *eval.Evaluation) { e.Anchors = &eval.Anchors{Of: "ev-aaaaaaaaaaaa"} })
	before := e.ID()
	if e.Anchors.History = []eval.Asking{{Name: "x"}}; e.ID() != before || len(e.Anchors.History) != 1 {
		t.Error("the id depends on what judges said before")
	}
	e.PlanVersion++
	if e.ID() == before {
		t.Error("another plan version has the same id")
	}
}

// The plan is stored as JSON; readers must find the same identity there, because samples and
// random orders are drawn from it.
func TestIDSurvivesStorage(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*eval.Evaluation){
		"all":                          func(*eval.Evaluation) {},
		"no kinds":                     func(e *eval.Evaluation) { e.Single, e.Pairwise = nil, nil },
		"no overrides":                 func(e *eval.Evaluation) { e.Judges[0].Overrides = map[string]any{} },
		"large integer":                func(e *eval.Evaluation) { e.Judges[0].Overrides["seed"] = uint64(1)<<53 + 1 },
		"nested":                       func(e *eval.Evaluation) { e.Judges[0].Overrides["extra"] = map[string]any{"stop": []string{"<"}} },
		"name not UTF-8":               func(e *eval.Evaluation) { e.Documents[0].ID = "q1/caf\xe9" },
		"a name with the mark of that": func(e *eval.Evaluation) { e.Documents[0].ID = "q1/\ufffd\\ufffd" },
		"an agent's large integer": func(e *eval.Evaluation) {
			e.Panel = &eval.Panel{Agents: []eval.Judge{{Name: "a", Overrides: map[string]any{"seed": uint64(1)<<53 + 1}}}}
		},
		"a run's large integer": withRuns(func(e *eval.Evaluation) {
			e.Runs.Models[0].Overrides = map[string]any{"seed": uint64(1)<<53 + 1}
		}),
		"a prompt's large integer": withPrompts(func(e *eval.Evaluation) {
			e.Prompts.Models[0].Overrides = map[string]any{"seed": uint64(1)<<53 + 1}
		}),
	} {
		e := normalized(change)
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var stored eval.Evaluation
		if err := json.Unmarshal(raw, &stored); err != nil {
			t.Fatal(err)
		}
		if got, want := stored.ID(), e.ID(); got != want || stored.StoredID() != want {
			t.Errorf("%s: ID after storage = %s, StoredID = %s, before %s", name, got, stored.StoredID(), want)
		}
	}
}

// shuffled is essays with items and documents found in another order.
func shuffled(seed uint64) *eval.Evaluation {
	r := rand.New(rand.NewPCG(seed, 0))
	e := essays()
	items, docs := r.Perm(len(e.Items)), r.Perm(len(e.Documents)) // new position of each
	from := essays()
	for i, to := range items {
		e.Items[to] = from.Items[i]
	}
	for i, to := range docs {
		e.Documents[to] = from.Documents[i]
		e.Documents[to].Item = items[from.Documents[i].Item]
	}
	for i, pair := range from.Pairwise.Pairs.Listed {
		e.Pairwise.Pairs.Listed[i] = [2]int{docs[pair[0]], docs[pair[1]]}
	}
	return e
}

func TestNormalizeForgetsTheOrderOfFiles(t *testing.T) {
	t.Parallel()
	want := normalized(func(*eval.Evaluation) {})
	for seed := range uint64(50) {
		e := shuffled(seed)
		e.Normalize()
		if e.ID() != want.ID() {
			t.Fatalf("seed %d: ID = %s, want %s", seed, e.ID(), want.ID())
		}
		e.Normalize()
		if e.ID() != want.ID() {
			t.Fatalf("seed %d: normalized twice, ID = %s, want %s", seed, e.ID(), want.ID())
		}
		for i, pair := range e.Pairwise.Pairs.Listed {
			if a, b := e.Documents[pair[0]].ID, [...]string{"q1/ann", "q2/bob"}[i]; a != b {
				t.Fatalf("seed %d: listed pair %d begins with %s, want %s", seed, i, a, b)
			}
		}
	}
}

func TestNormalizeKeepsFilesInTheirItem(t *testing.T) {
	t.Parallel()
	e := normalized(withRuns(func(*eval.Evaluation) {}))
	for _, file := range e.Runs.Files {
		if id := e.Items[file.Item].ID; id != "" {
			t.Errorf("file %s is of item %q, want the empty one", file.ID, id)
		}
	}
	e = normalized(withPrompts(func(*eval.Evaluation) {}))
	for _, row := range e.Prompts.Rows {
		if id := e.Items[row.Item].ID; id != "" {
			t.Errorf("row %s is of item %q, want the empty one", row.ID, id)
		}
	}
}

// Listed runs must show evidence unless the file says otherwise, judges only when
// it asks for it; and what is said twice over is one evaluation.
func TestWhatIsRequired(t *testing.T) {
	t.Parallel()
	none := func(*eval.Evaluation) {}
	alone := withRuns(func(e *eval.Evaluation) { e.Single, e.Pairwise = nil, nil })
	ids := map[string]eval.ID{}
	for _, test := range []struct {
		name         string
		change       func(*eval.Evaluation)
		said         eval.Requirement
		judged, runs bool
	}{
		{"judged", none, "", false, true},
		{"judged", none, eval.Off, false, false},
		{"judged, required", none, eval.Required, true, true},
		{"runs", alone, "", true, true},
		{"runs", alone, eval.Required, true, true},
		{"runs, off", alone, eval.Off, false, false},
		{"both", withRuns(none), "", false, true},
		{"both, off", withRuns(none), eval.Off, false, false},
		{"both, required", withRuns(none), eval.Required, true, true},
	} {
		e := normalized(func(e *eval.Evaluation) {
			test.change(e)
			e.Grounding, e.Reasoning = test.said, test.said
		})
		if e.Single != nil && (e.Grounded(eval.KindPairwise) != test.judged || e.Reasoned(eval.KindSingle) != test.judged) {
			t.Errorf("%s, said %q: judges must show evidence: got %t and %t, want %t", test.name, test.said,
				e.Grounded(eval.KindPairwise), e.Reasoned(eval.KindSingle), test.judged)
		}
		if e.Runs != nil && (e.Grounded(eval.KindRuns) != test.runs || e.Reasoned(eval.KindRuns) != test.runs) {
			t.Errorf("%s, said %q: runs must show evidence: got %t and %t, want %t", test.name, test.said,
				e.Grounded(eval.KindRuns), e.Reasoned(eval.KindRuns), test.runs)
		}
		if before, ok := ids[test.name]; ok && before != e.ID() {
			t.Errorf("%s, said %q: ID = %s, before %s", test.name, test.said, e.ID(), before)
		}
		ids[test.name] = e.ID()
	}
}

func TestNormalizeLeavesTheListGivenAlone(t *testing.T) {
	t.Parallel()
	e := shuffled(1)
	given := e.Pairwise.Pairs.Listed
	before := append([][2]int(nil), given...)
	e.Normalize()
	for i := range given {
		if given[i] != before[i] {
			t.Errorf("listed pair %d of the caller became %v, want %v", i, given[i], before[i])
		}
	}
}

func TestTextHash(t *testing.T) {
	t.Parallel()
	if got, want := eval.TextHash("hello"), "2cf24dba5fb0a30e26e83b2ac5b9e29e"; got != want {
		t.Errorf("TextHash = %s, want %s", got, want)
	}
}

func TestParseTarget(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in, provider, model string
		ok                  bool
	}{
		{"openai:gpt-5-mini", "openai", "gpt-5-mini", true},
		{"ollama:llama3:8b", "ollama", "llama3:8b", true},
		{"openrouter:meta/llama-3", "openrouter", "meta/llama-3", true},
		{"openai", "", "", false},
		{":gpt-5", "", "", false},
		{"openai:", "", "", false},
		{"", "", "", false},
	} {
		provider, model, err := eval.ParseTarget(test.in)
		if provider != test.provider || model != test.model || (err == nil) != test.ok {
			t.Errorf("ParseTarget(%q) = %q, %q, %v, want %q, %q, ok %t", test.in, provider, model, err, test.provider, test.model, test.ok)
		}
		if test.ok && (eval.Judge{Provider: provider, Model: model}).Target() != test.in {
			t.Errorf("Target of %q and %q is not %q", provider, model, test.in)
		}
	}
}

func TestParseRunID(t *testing.T) {
	t.Parallel()
	want := eval.RunID{Evaluation: "ev-abcdefgh2345", Phase: 0, Index: 17}
	if got, err := eval.ParseRunID("ev-abcdefgh2345.0.17"); got != want || err != nil {
		t.Errorf("ParseRunID = %+v, %v, want %+v", got, err, want)
	}
	if got := want.Short(); got != "0.17" {
		t.Errorf("Short = %q, want 0.17", got)
	}
	for _, bad := range []string{
		"", ".", "..", "ev-a", "ev-a.0", "ev-a.0.", "ev-a..1", ".0.1", "ev-a.0.1.2", "ev-a.x.1", "ev-a.0.x",
		"ev-a.-1.0", "ev-a.0.-1", "ev-a.0.+1", "ev-a.00.1", "ev-a.0.01", "ev-a.0.1 ", "ev-a.0.99999999999999999999",
	} {
		if got, err := eval.ParseRunID(bad); err == nil {
			t.Errorf("ParseRunID(%q) = %+v, want an error", bad, got)
		}
	}
}

func TestParseShort(t *testing.T) {
	t.Parallel()
	want := eval.RunID{Phase: 2, Index: 17}
	if got, ok := eval.ParseShort(want.Short()); got != want || !ok {
		t.Errorf("ParseShort = %+v, %t, want %+v", got, ok, want)
	}
	if got, ok := eval.ParseShort(want.Cell()); got != want || !ok || want.Cell() != "r2-17" {
		t.Errorf("ParseShort(%q) = %+v, %t, want %+v", want.Cell(), got, ok, want)
	}
	for _, bad := range []string{
		"", ".", "0", "0.", ".1", "0.1.2", "x.1", "0.x", "-1.0", "0.+1", "00.1", "0.01", "0.1 ", "ev-a.0.1",
		"r", "r-", "r0", "r0-", "r-1", "r0.1", "0-1", "r0-1-2", "r0--1", "r0-+1", "r00-1", "r0-01", "R0-1", "rr0-1",
	} {
		if got, ok := eval.ParseShort(bad); ok {
			t.Errorf("ParseShort(%q) = %+v, want none", bad, got)
		}
	}
}

// A run has one id: what is accepted is written the same way again.
func FuzzParseRunID(f *testing.F) {
	f.Add("ev-abcdefgh2345.0.17")
	f.Add("ev.+1.007")
	f.Add("...")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := eval.ParseRunID(s)
		if err != nil {
			return
		}
		if id.String() != s || id.Phase < 0 || id.Index < 0 {
			t.Fatalf("ParseRunID(%q) = %+v, which is written %q", s, id, id)
		}
	})
}

func FuzzParseTarget(f *testing.F) {
	f.Add("ollama:llama3:8b")
	f.Fuzz(func(t *testing.T, s string) {
		provider, model, err := eval.ParseTarget(s)
		if err == nil && (provider+":"+model != s || strings.Contains(provider, ":") || model == "") {
			t.Fatalf("ParseTarget(%q) = %q, %q", s, provider, model)
		}
	})
}

func TestStateWords(t *testing.T) {
	t.Parallel()
	for state, want := range map[eval.State]string{
		eval.StateNone: "none", eval.StateSucceeded: "succeeded", eval.StateFailed: "failed", eval.StateCancelled: "cancelled",
	} {
		if got := state.String(); got != want {
			t.Errorf("State(%d) = %q, want %q", state, got, want)
		}
	}
}
