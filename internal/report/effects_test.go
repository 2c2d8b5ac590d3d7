package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
)

// crossed is a tournament of prompts crossed with models on some items. quality says how good each pair of them is;
// its positions in the two lists are from 0.
func crossed(prompts, models, items int, quality func(prompt, model int) float64) *memory {
	var candidates, ids []string
	made := &eval.Answered{Evaluation: "0123456789abcdef"}
	level := map[string]float64{}
	for p := range prompts {
		for m := range models {
			one := eval.Candidate{Prompt: fmt.Sprintf("prompt-%c", 'a'+p), Model: fmt.Sprintf("model-%d", m+1)}
			one.Name = one.Prompt + " + " + one.Model
			made.Candidates = append(made.Candidates, one)
			candidates = append(candidates, one.Name)
			level[one.Name] = quality(p, m)
		}
	}
	for k := range items {
		ids = append(ids, fmt.Sprintf("q%02d", k+1))
	}
	m := tournament(candidates, ids, []string{"j"}, []float64{0.3}, 0)
	m.evaluation.Plan.Answered = made
	for k := range m.pairwise {
		row := &m.pairwise[k]
		d := level[row.Candidate1] - level[row.Candidate2]
		// Verdicts are as frequent as abilities say, and evenly spread over items.
		if row.AnsweredBy != "" && row.Winner != eval.Tie && d != 0 {
			row.Winner = row.Document2
			if math.Mod(float64(k)*0.618034, 1) < 1/(1+math.Exp(-d)) {
				row.Winner = row.Document1
			}
		}
	}
	return m
}

func effectsOf(t *testing.T, m *memory) (*Report, *effectsJSON) {
	t.Helper()
	r := built(t, m, Options{Draws: 20})
	return r, r.effectsJSON()
}

// TestEffectsOfPromptsAndModels: every form says which factor differs more, ranks prompts and models, and whether they
// add up. Nothing follows from the names of candidates.
func TestEffectsOfPromptsAndModels(t *testing.T) {
	t.Parallel()
	m := crossed(3, 2, 12, func(prompt, model int) float64 { return 0.1*float64(prompt) - 1.5*float64(model) })
	for k := range m.evaluation.Plan.Answered.Candidates {
		m.rename(m.evaluation.Plan.Answered.Candidates[k].Name, fmt.Sprintf("x%d", k))
		m.evaluation.Plan.Answered.Candidates[k].Name = fmt.Sprintf("x%d", k)
	}
	r, e := effectsOf(t, m)
	if e == nil || e.Why != "" {
		t.Fatalf("there are no effects: %+v", e)
	}
	if e.More != "models" || !strings.HasPrefix(e.Headline, "Models differ more than prompts: “model-1” wins ") {
		t.Errorf("differ_more is %s: %s", e.More, e.Headline)
	}
	if e.Models[0].Name != "model-1" || e.Models[0].RankHigh != 1 || e.Models[0].Low <= 0 || e.Models[1].RankLow != 2 {
		t.Errorf("models: %+v", e.Models)
	}
	if len(e.Prompts) != 3 || len(e.Interaction.All) != 6 || math.IsNaN(float64(e.Interaction.P)) {
		t.Errorf("%d prompts, %d deviations, p = %v", len(e.Prompts), len(e.Interaction.All), e.Interaction.P)
	}
	sum := 0.0
	for _, one := range e.Prompts {
		sum += float64(one.Effect)
	}
	if math.Abs(sum) > 1e-6 {
		t.Errorf("the effects of prompts add up to %v, want 0: the average candidate", sum)
	}

	lines := linesOf(t, r, "effects")
	if len(lines) != 3+2+6 {
		t.Fatalf("effects has %d rows, want one for each prompt, model and candidate", len(lines))
	}
	for i, want := range []struct {
		of, name   string
		rank       int
		value, low number
	}{
		0: {"prompt", e.Prompts[0].Name, 1, e.Prompts[0].Effect, e.Prompts[0].Low},
		4: {"model", e.Models[1].Name, 2, e.Models[1].Effect, e.Models[1].Low},
		5: {"interaction", e.Interaction.All[0].Prompt, 0, e.Interaction.All[0].By, e.Interaction.All[0].Low},
	} {
		if l := lines[i]; want.of != "" && (l["of"] != want.of || l["prompt"] != want.name && l["model"] != want.name ||
			l.integer("rank") != want.rank || l["effect"] != float64(want.value) || l["low"] != float64(want.low)) {
			t.Errorf("row %d of effects is %v, want %+v", i, l, want)
		}
	}
	if l := lines[5]; l["candidate"] != e.Interaction.All[0].Candidate || l["p"] != float64(e.Interaction.P) ||
		l["expected"] != float64(e.Interaction.All[0].Expected) {
		t.Errorf("the first interaction is %v, want %+v", l, e.Interaction.All[0])
	}

	var text, markdown, card, raw bytes.Buffer
	for name, err := range map[string]error{
		"text": r.WriteText(&text, TextOptions{}), "Markdown": r.WriteMarkdown(&markdown), "card": r.WriteCard(&card, CardOptions{}),
		"JSON": r.WriteJSON(&raw),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, got := range map[string]string{
		"text": text.String(), "Markdown": markdown.String(), "card": card.String(), "page": pageOf(t, r),
	} {
		flat := strings.Join(strings.Fields(strings.NewReplacer("\u00a0", " ").Replace(got)), " ")
		if !strings.Contains(flat, "Models differ more than prompts: “model-1” wins") {
			t.Errorf("the %s does not say which factor differs more", name)
		}
	}
	var form struct {
		Effects struct {
			Models []struct{ Name string } `json:"models"`
		} `json:"effects"`
	}
	if err := json.Unmarshal(raw.Bytes(), &form); err != nil || len(form.Effects.Models) != 2 {
		t.Errorf("report.json has the models %v (%v)", form.Effects.Models, err)
	}
}

// rename gives a candidate another name.
func (m *memory) rename(from, to string) {
	for k := range m.evaluation.Plan.Documents {
		if d := &m.evaluation.Plan.Documents[k]; d.Candidate == from {
			d.Candidate = to
		}
	}
	for k := range m.pairwise {
		for _, name := range []*string{&m.pairwise[k].Candidate1, &m.pairwise[k].Candidate2} {
			if *name == from {
				*name = to
			}
		}
	}
}

// TestInteraction: a prompt that suits one model is named; without one, nothing is claimed.
func TestInteraction(t *testing.T) {
	t.Parallel()
	suits := func(prompt, model int) float64 {
		if prompt == 1 && model == 1 {
			return 1.6
		}
		return 0
	}
	_, e := effectsOf(t, crossed(2, 3, 12, suits))
	if !strings.HasPrefix(e.Interaction.Words, "Some prompts suit some models better than others (p ") ||
		!strings.Contains(e.Interaction.Words, "“prompt-b + model-2” does better than its prompt and its model add up to") {
		t.Errorf("got %q", e.Interaction.Words)
	}
	_, e = effectsOf(t, crossed(2, 3, 12, func(prompt, model int) float64 { return 0.3 * float64(prompt+model) }))
	if !strings.Contains(e.Interaction.Words, "may be chance (p = ") {
		t.Errorf("without an interaction: got %q", e.Interaction.Words)
	}
	_, e = effectsOf(t, crossed(2, 3, 12, func(int, int) float64 { return 0 }))
	if e.More != "unknown" || !strings.HasPrefix(e.Headline, "Neither prompts nor models are told apart at 95 % confidence: ") {
		t.Errorf("equals: got %q", e.Headline)
	}
}

// TestEffectsByScore: where scores alone rank, effects are differences of mean scores.
func TestEffectsByScore(t *testing.T) {
	t.Parallel()
	m := crossed(2, 2, 8, func(int, int) float64 { return 0 }).withScores("clarity")
	m.evaluation.Plan.Pairwise, m.pairwise, m.counts = nil, nil, m.counts[:1]
	for k := range m.singles {
		row := &m.singles[k]
		row.Score = 3 + float64((k*7)%3)/2
		if strings.HasPrefix(row.Candidate, "prompt-b") {
			row.Score = 2
		}
	}
	r, e := effectsOf(t, m)
	if e.Why != "" || !strings.Contains(e.Headline, "“prompt-a” scores +") || e.Prompts[0].RankHigh != 1 {
		t.Errorf("got %+v", e)
	}
	if mean := float64(e.Prompts[1].Effect); mean != 2 {
		t.Errorf("the mean score of a prompt is %v, want 2", mean)
	}
	var out bytes.Buffer
	if err := r.WriteText(&out, TextOptions{}); err != nil || !strings.Contains(out.String(), "mean score") {
		t.Errorf("the text has no mean scores (%v)", err)
	}
	if page := pageOf(t, r); !strings.Contains(page, "Mean score of each prompt with each model") {
		t.Error("the page has no grid of mean scores")
	}
}

// TestEffectsThatAreNotComputed: a sentence says why, and no number is shown.
func TestEffectsThatAreNotComputed(t *testing.T) {
	t.Parallel()
	equal := func(int, int) float64 { return 0 }
	onePrompt, oneModel := crossed(1, 3, 6, equal), crossed(3, 1, 6, equal)
	lacking := crossed(2, 2, 6, equal)
	lacking.pairwise = slices.DeleteFunc(lacking.pairwise, func(row results.PairwiseRow) bool {
		return strings.Contains(row.Candidate1+row.Candidate2, "prompt-b + model-2")
	})
	unmade := crossed(2, 2, 6, equal)
	unmade.evaluation.Plan.Answered.Candidates[0].Name = "another"
	incomplete := crossed(2, 2, 6, equal)
	incomplete.evaluation.Plan.Answered.Candidates = incomplete.evaluation.Plan.Answered.Candidates[:3]
	apart := crossed(2, 2, 6, equal)
	apart.pairwise = slices.DeleteFunc(apart.pairwise, func(row results.PairwiseRow) bool {
		return row.Candidate1[:len("prompt-a")] != row.Candidate2[:len("prompt-a")]
	})

	for name, c := range map[string]struct {
		m    *memory
		want string
	}{
		"one prompt":        {onePrompt, "All candidates have the same prompt, so the ranking shows the effect of the model."},
		"one model":         {oneModel, "All candidates are the same model, so the ranking shows the effect of the prompt."},
		"no verdict":        {lacking, "not every prompt is ranked with every model: “prompt-b + model-2” has no rank."},
		"no document":       {unmade, "not every prompt is ranked with every model: “another” has no rank."},
		"not all are known": {incomplete, "not every prompt was given to every model"},
		"separate rankings": {apart, "no verdicts compare the separate rankings"},
	} {
		r, e := effectsOf(t, c.m)
		if e == nil || !strings.Contains(e.Why, c.want) || e.Prompts != nil || e.Interaction != nil {
			t.Errorf("%s: got %+v, want why %q", name, e, c.want)
			continue
		}
		var out bytes.Buffer
		if err := r.WriteText(&out, TextOptions{}); err != nil || strings.Contains(out.String(), "all with") {
			t.Errorf("%s: the text shows effects (%v)", name, err)
		}
		if page := pageOf(t, r); !strings.Contains(page, `<h2 id="effects">Prompts and models</h2>`) {
			t.Errorf("%s: the page does not say why there are no effects", name)
		}
	}
	plain := crossed(2, 2, 6, equal)
	plain.evaluation.Plan.Answered = nil
	if r, e := effectsOf(t, plain); e != nil || r.Effects != nil || strings.Contains(pageOf(t, r), `id="effects"`) {
		t.Error("documents that are no answers to prompts have effects")
	}
}
