package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
)

// A template is named by the hash of its text, and an agent's prompt by that of its.
func TestSettingsNameTemplates(t *testing.T) {
	t.Parallel()
	builtIn, own := prompt.DefaultTemplate(eval.KindPanel), "Compare.\n[[documents]]"
	e := plan([]string{"x", "y"}, []string{"q"}, "careful")
	e.Pairwise.Template = own
	e.Panel = &eval.Panel{
		Agents:     []eval.Judge{{Name: "prosecutor", Provider: "simulator", Model: "careful", Prompt: "You are a prosecutor."}, {Name: "plain"}},
		Dimensions: []eval.Dimension{{ID: "clarity"}}, Scale: eval.Scale{Min: 1, Max: 5}, Template: builtIn,
	}
	all := built(t, sourceOf(e), Options{}).settings()
	for name, want := range map[string]string{
		"pairwise":         "own template " + eval.TextHash(own)[:8],
		"panel":            "2 agents, 1 dimension, built-in template " + eval.TextHash(builtIn)[:8],
		"agent prosecutor": "simulator:careful, own prompt " + eval.TextHash("You are a prosecutor.")[:8],
		"agent plain":      "no prompt of its own",
	} {
		at := slices.IndexFunc(all, func(s setting) bool { return s.Name == name })
		if at < 0 || !strings.HasSuffix(all[at].Value, want) {
			t.Errorf("%s: %+v; want its line to end with %q", name, all, want)
		}
	}
}
