package config

import (
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
)

// A template's text is part of what is asked, also that of the built-in ones: a file
// with the same text asks the same, and another text something else.
func TestTemplatesArePartOfWhatIsAsked(t *testing.T) {
	t.Parallel()
	kinds := []eval.Kind{eval.KindSingle, eval.KindPairwise, eval.KindPanel}
	loaded := func(own map[eval.Kind]string) *eval.Evaluation {
		files, key := with(two), map[eval.Kind]string{}
		for kind, text := range own {
			files[string(kind)+".md"], key[kind] = text, "template: "+string(kind)+".md"
		}
		files["eval.yaml"] = "documents: [docs/*.md]\njudges: [simulator:careful]\npairwise: {" + key[eval.KindPairwise] +
			"}\nsingle: {criteria: [style], " + key[eval.KindSingle] +
			"}\npanel: {agents: [{name: a, model: simulator:careful}], dimensions: [clarity], " + key[eval.KindPanel] + "}\n"
		return load(t, files, Options{}).Evaluation
	}
	builtIn := loaded(nil)
	for _, kind := range kinds {
		text := prompt.DefaultTemplate(kind)
		if got := builtIn.Template(kind); got != text {
			t.Errorf("%s: without a template, the evaluation holds %q, want the text that is built in", kind, got)
		}
		if got := loaded(map[eval.Kind]string{kind: text}); got.ID() != builtIn.ID() {
			t.Errorf("%s: a file with the built-in text asks something else", kind)
		}
		own := strings.Replace(text, "How to judge:", "How to judge well:", 1)
		if got := loaded(map[eval.Kind]string{kind: own}); got.ID() == builtIn.ID() || got.Template(kind) != own {
			t.Errorf("%s: a file with another text asks the same, or is not what is asked: %q", kind, got.Template(kind))
		}
	}
}
