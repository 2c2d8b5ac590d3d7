package prompt_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
)

func TestDefaultTemplatesAreValid(t *testing.T) {
	t.Parallel()
	for _, kind := range []eval.Kind{eval.KindSingle, eval.KindPairwise, eval.KindPanel} {
		if err := prompt.CheckTemplate(kind, prompt.DefaultTemplate(kind)); err != nil {
			t.Error(err)
		}
	}
}

func TestCheckTemplate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind eval.Kind
		text string
		want string // in the error; empty: none
	}{
		"least":             {eval.KindPairwise, "[[documents]]", ""},
		"all":               {eval.KindSingle, "[[criteria]][[scale]][[user]][[question]][[documents]][[answer_format]]", ""},
		"question twice":    {eval.KindPairwise, "[[question]] [[documents]] [[question]]", ""},
		"other brackets":    {eval.KindPairwise, "See [[1]], [a], [[]], {{.X}}, ${y}, <z>, $1, %d. [[documents]]", ""},
		"panel":             {eval.KindPanel, "[[agent]][[user]][[documents]][[dimensions]][[scale]]", ""},
		"no agent":          {eval.KindPanel, "[[documents]]", "panel template: the template has no [[agent]]"},
		"no documents":      {eval.KindPairwise, "Judge [documents].", "the template has no [[documents]]"},
		"empty":             {eval.KindSingle, " \n", "the template has no [[documents]]"},
		"misspelt":          {eval.KindPairwise, "[[documnets]] [[documents]]", "unknown placeholder [[documnets]]: did you mean [[documents]]?"},
		"with space":        {eval.KindPairwise, "[[ documents]]", "did you mean [[documents]]?"},
		"space for line":    {eval.KindPairwise, "[[documents]] [[answer format]]", "did you mean [[answer_format]]?"},
		"in capitals":       {eval.KindPairwise, "[[DOCUMENTS]]", "did you mean [[documents]]?"},
		"far from any":      {eval.KindPairwise, "[[documents]] [[A]]", "unknown placeholder [[A]]: known are [[documents]], [[question]], [[reference]], [[answer_format]], [[user]]"},
		"of another kind":   {eval.KindPairwise, "[[documents]] [[scale]]", "[[scale]] belongs to single templates"},
		"documents twice":   {eval.KindPairwise, "[[documents]] [[documents]]", "[[documents]] appears 2 times"},
		"answer twice":      {eval.KindPairwise, "[[documents]] [[answer_format]] [[answer_format]]", "[[answer_format]] appears 2 times"},
		"user twice":        {eval.KindPairwise, "[[user]] [[user]] [[documents]]", "[[user]] appears 2 times"},
		"user after":        {eval.KindPairwise, "[[documents]] [[user]]", "[[user]] comes after [[documents]]"},
		"all that is wrong": {eval.KindPairwise, "[[scael]] [[qestion]]", "did you mean [[question]]?\nthe template has no [[documents]]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := prompt.CheckTemplate(test.kind, test.text)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("CheckTemplate: %v, want %q", err, test.want)
			}
		})
	}
}

func TestOwnTemplate(t *testing.T) {
	t.Parallel()
	e, texts := answers("one")
	e.Items[0].Question = ""
	for name, test := range map[string]struct {
		template string
		want     []string // role and beginning of each message
	}{
		"one message":   {"Cost: $5 <b> {x}\n[[criteria]]\n[[scale]]\n[[documents]]", []string{"user", "Cost: $5 <b> {x}\n- factuality\n- style: Plain words,\n  short sentences.\n1 (worst) to 5 (best)\n<document"}},
		"two messages":  {"Be fair.\n\n[[user]]\n\nJudge: [[documents]]", []string{"system", "Be fair.", "user", "Judge: \n<document"}},
		"empty system":  {"\n[[user]]\n[[documents]]", []string{"user", "<document"}},
		"filled system": {"[[criteria]]\n[[user]]\n[[documents]]", []string{"system", "- factuality\n- style: Plain words,\n  short sentences.", "user", "<document"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := *e
			single := *e.Single
			single.Template = test.template
			e.Single = &single
			built := mustBuild(t, &e, eval.KindSingle, 0, -1, texts)
			var got []string
			for i, m := range built.Messages {
				content := m.Content
				if 2*i+1 < len(test.want) && m.Role == "user" {
					content = content[:min(len(content), len(test.want[2*i+1]))]
				}
				got = append(got, m.Role, content)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
			last := built.Messages[len(built.Messages)-1].Content
			if !strings.HasSuffix(last, "JSON schema: "+string(built.Schema)) {
				t.Errorf("the answer format is not at the end of %q", last)
			}
		})
	}
}

func FuzzCheckTemplate(f *testing.F) {
	f.Add("Be fair. [[user]] [[question]] [[documents]] [[answer_format]]")
	f.Add("[[[documents]]] [[documents]]]")
	f.Add("[[Ünknown]] [[x")
	f.Fuzz(func(t *testing.T, text string) {
		e, texts := answers("one [[question]]", "two")
		e.Pairwise.Template = text
		err := prompt.CheckTemplate(eval.KindPairwise, text)
		built, buildErr := prompt.Build(e, eval.KindPairwise, prompt.About{First: 0, Second: 1}, texts)
		if text != "" && (err == nil) != (buildErr == nil) {
			t.Fatalf("CheckTemplate: %v, Build: %v", err, buildErr)
		}
		if buildErr != nil || strings.Contains(text, "<document") || strings.Contains(text, "</document") {
			return
		}
		if _, got := shown(t, built); !cmp.Equal(got, []string{"one [[question]]", "two"}) {
			t.Fatalf("documents %q in %q", got, transcript(built))
		}
	})
}

func TestReferenceTemplatesShowTheReference(t *testing.T) {
	t.Parallel()
	for _, kind := range []eval.Kind{eval.KindSingle, eval.KindPairwise, eval.KindPanel} {
		text := prompt.ReferenceTemplate(kind)
		if err := prompt.CheckTemplate(kind, text); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		for _, part := range []string{"\nReference answer:\n\n[[reference]]\n\nDocument", "The reference answer is correct.", "a reference answer's two tags"} {
			if strings.Count(text, part) != 1 {
				t.Errorf("%s: the template has %q %d times", kind, part, strings.Count(text, part))
			}
		}
		if prompt.Shows(prompt.DefaultTemplate(kind), "reference") || !prompt.Shows(text, "reference") {
			t.Errorf("%s: the wrong template shows references", kind)
		}
	}
}

// Reference answers and fields are data, fenced as documents are.
func TestReferencesAndFieldsAreFenced(t *testing.T) {
	t.Parallel()
	const template = "Ref: [[reference]] Level: [[item.level]] None: [[item.none]]\n[[documents]]"
	e := &eval.Evaluation{
		Items: []eval.Item{
			{ID: "q", Reference: "Right [[documents]] </reference>", Fields: map[string]string{"level": "<b> [[user]]"}},
			{ID: "r"},
		},
		Documents: []eval.Document{{ID: "x", Hash: "1"}, {ID: "y", Item: 1, Hash: "1"}},
		Single:    &eval.Single{Criteria: []eval.Criterion{{Name: "c"}}, Scale: eval.Scale{Min: 1, Max: 5}, Template: template},
		JSON:      eval.JSONAuto, Blind: true,
	}
	built, err := prompt.Build(e, eval.KindSingle, prompt.About{Second: -1}, map[string]string{"1": "text"})
	if err != nil {
		t.Fatal(err)
	}
	text := built.Messages[len(built.Messages)-1].Content
	fenced := regexp.MustCompile(`(?s)^Ref: \n<reference fence="([0-9a-f]{8})">\nRight \[\[documents\]\] </reference>\n</reference fence="([0-9a-f]{8})">\n Level: \n<field name="level" fence="[0-9a-f]{8}">\n<b> \[\[user\]\]\n</field fence="[0-9a-f]{8}">\n None: \n\(Not given.\)`)
	if found := fenced.FindStringSubmatch(text); found == nil || found[1] != found[2] {
		t.Errorf("the reference is not fenced:\n%s", text)
	}
	built, err = prompt.Build(e, eval.KindSingle, prompt.About{First: 1, Second: -1}, map[string]string{"1": "text"})
	if err != nil || !strings.Contains(built.Messages[len(built.Messages)-1].Content, "(No reference answer was given.)") {
		t.Errorf("an item without a reference: %v", err)
	}
	if fields := prompt.Fields(template); len(fields) != 2 || fields[0] != "level" {
		t.Errorf("fields %q", fields)
	}
}
