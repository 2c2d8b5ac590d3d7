package record

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/providers"
)

func TestEvidenceIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 10_000)
	page := providers.Source{URL: "https://example.org/" + long, Title: long}
	result := &providers.Result{
		Reasoning: "a" + long,
		Grounding: providers.Grounding{Searches: 400, Queries: slices.Repeat([]string{long}, 400), Sources: slices.Repeat([]providers.Source{page}, 400),
			Safety: slices.Repeat([]providers.SafetyRating{{Category: long, Probability: long, Blocked: true}}, 400)},
	}
	var call Call
	call.Evidence(result)
	want := Call{
		Reasoning: "a" + long[:16<<10-2],
		Grounding: &providers.Grounding{
			Searches: 400, Queries: slices.Repeat([]string{long[:2<<10]}, 20),
			Sources: slices.Repeat([]providers.Source{{URL: page.URL[:2<<10], Title: long[:2<<10]}}, 50),
			Safety:  slices.Repeat([]providers.SafetyRating{{Category: long[:64], Probability: long[:64], Blocked: true}}, 20),
		},
	}
	if diff := cmp.Diff(want, call); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	if len(result.Grounding.Sources) != 400 || result.Grounding.Sources[0] != page {
		t.Error("the answer itself was cut")
	}
}

func TestEvidenceOfAnAnswerWithoutAny(t *testing.T) {
	t.Parallel()
	var call Call
	call.Evidence(&providers.Result{Text: "an answer"})
	if diff := cmp.Diff(Call{}, call); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}
