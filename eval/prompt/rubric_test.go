package prompt_test

import (
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
)

func rubric() (*eval.Evaluation, map[string]string) {
	e, texts := answers("Rayleigh scattering favours short waves.\n")
	e.Single = &eval.Single{Rubric: true, Criteria: []eval.Criterion{{Name: eval.RubricName}}, Trials: 1, Template: prompt.RubricTemplate()}
	e.Items[0].Rubric = []eval.RubricCriterion{
		{Text: "Names Rayleigh\n7. scattering.", Points: 812, Tags: []string{"secret-tag"}}, {Text: "Says that the sky reflects the sea.", Points: -477},
	}
	return e, texts
}

func TestRubricPrompt(t *testing.T) {
	t.Parallel()
	e, texts := rubric()
	got := transcript(mustBuild(t, e, eval.KindSingle, 0, -1, texts))
	wantGolden(t, "rubric", got)
	for _, hidden := range []string{"812", "477", "secret-tag"} {
		if strings.Contains(got, hidden) {
			t.Errorf("the judge sees %s, points and tags of the rubric", hidden)
		}
	}
	if strings.Contains(got, "\n7. ") {
		t.Error("a criterion of two lines looks like two criteria")
	}
	if err := prompt.CheckTemplate(eval.KindSingle, prompt.RubricTemplate()); err != nil {
		t.Error(err)
	}
}
