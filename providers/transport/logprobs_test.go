package transport

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/providers"
)

// TestLogProbsAreReadSafely: what a server sends in place of log probabilities loses no answer, is no probability of 1, and
// takes no more memory than is used.
func TestLogProbsAreReadSafely(t *testing.T) {
	t.Parallel()
	at := func(text string, p float64) providers.Alternative {
		return providers.Alternative{Text: text, LogProb: p}
	}
	many := `[` + strings.Repeat(`{"token":"b","logprob":-1},`, 50_000) + `{}]`
	nan := math.NaN()
	for _, test := range []struct {
		raw  string
		want []providers.Token
	}{
		{`[{"token":"A","bytes":[65],"logprob":-0.5,"top_logprobs":[{"token":"A","bytes":[65],"logprob":-0.5},{"token":"B","bytes":null,"logprob":-1}]}]`,
			[]providers.Token{{Alternative: at("A", -0.5), Top: []providers.Alternative{at("A", -0.5), at("B", -1)}}}},
		{`[{"token":"\\xe2\\x80","bytes":[226,128],"logprob":-9999}]`, []providers.Token{{Alternative: at("\xe2\x80", -9999)}}},
		{`[{"token":"A"},{"token":"B","logprob":null},{"token":"C","logprob":1e999},{"token":"D","logprob":"NaN"}]`, []providers.Token{
			{Alternative: at("A", nan)}, {Alternative: at("B", nan)}, {Alternative: at("C", nan)}, {Alternative: at("D", nan)}}},
		{`[{"token":"A","bytes":[65,256],"logprob":2}]`, []providers.Token{{Alternative: at("A", 2)}}},
		{`[{"token":"A","bytes":"QQ==","logprob":0,"top_logprobs":{"A":-1}}]`, []providers.Token{{Alternative: at("A", 0)}}},
		{`[{"token":"A","logprob":-1},7,{"token":"B"}]`, []providers.Token{{Alternative: at("A", -1)}}},
		{`null`, nil},
		{`{"content":[]}`, nil},
		{`"a text"`, nil},
	} {
		var got LogProbs
		if err := json.Unmarshal([]byte(test.raw), &got); err != nil {
			t.Errorf("%s: %v", test.raw, err)
		}
		if diff := cmp.Diff(test.want, []providers.Token(got), cmp.Comparer(func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.raw, diff)
		}
	}

	var one LogProbs
	if err := json.Unmarshal([]byte(`[{"token":"a","logprob":0,"top_logprobs":`+many+`}]`), &one); err != nil || len(one) != 1 ||
		len(one[0].Top) > providers.TopLogProbs+1 {
		t.Errorf("%d tokens, %v", len(one), err)
	}
	var all LogProbs
	long := `[` + strings.Repeat(`{},`, 2*providers.MostLogProbs) + `{}]`
	if err := json.Unmarshal([]byte(long), &all); err != nil || len(all) != providers.MostLogProbs {
		t.Errorf("%d tokens, %v, want %d", len(all), err, providers.MostLogProbs)
	}
}
