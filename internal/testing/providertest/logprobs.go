package providertest

import (
	"math"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/providers"
)

// logProbs checks that log probabilities arrive, with those of other tokens, that they are not asked for without a request,
// and that nothing is sent to a model that is known not to give them.
func logProbs(t *testing.T, d Dialect) {
	s := d.start(t, simulator.Config{})
	req := d.verdict()
	if plain := s.answer(t, req); plain.Tokens != nil || strings.Contains(strings.ToLower(s.last(t).body), "logprobs") {
		t.Errorf("%d tokens that were not asked for by %s", len(plain.Tokens), s.last(t).body)
	}
	req.LogProbs = true

	if !d.WithoutLogProbs {
		result := s.answer(t, req)
		text, other := "", false
		for _, token := range result.Tokens {
			text += token.Text
			sum := 0.0
			for _, one := range token.Top {
				sum += math.Exp(one.LogProb)
				other = other || one.Text == "b" || one.Text == `"b` || strings.HasPrefix(one.Text, `b"`)
			}
			if !(token.LogProb <= 0) || len(token.Top) < 2 || !(sum <= 1.000001) {
				t.Errorf("token %+v with the sum %g", token, sum)
			}
		}
		if text != result.Text || !strings.Contains(text, better) || !other {
			t.Errorf("the tokens make up %q, the answer is %q; the other document is among them: %v", text, result.Text, other)
		}
	}

	none := d
	none.Capabilities.LogProbs = providers.LogProbsNone
	before, _ := s.calls()
	_, err := s.make(t, none).Call(t.Context(), req)
	if after, _ := s.calls(); providers.ClassOf(err) != providers.BadRequest || after != before {
		t.Errorf("a model that gives none: got %v and %d requests, want %s and none", err, after-before, providers.BadRequest)
	}
}
