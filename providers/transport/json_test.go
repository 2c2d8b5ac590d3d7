package transport

import (
	"encoding/json"
	"testing"
)

// Counts and costs that cannot be are not reported, and cost nothing else of the
// answer.
func TestNumbersThatCannotBe(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]struct {
		tokens Count
		usd    float64 // below 0: unknown
	}{
		`3`:                {3, 3},
		`0.25`:             {0, 0.25},
		`0`:                {0, 0},
		`-1`:               {0, -1},
		`-0.0000001`:       {0, -1},
		`1e300`:            {0, -1},
		`1e999`:            {0, -1},
		`10000`:            {10000, 10000},
		`10001`:            {10001, -1}, // USD
		`9007199254740993`: {0, -1},
		`null`:             {0, -1},
		`"NaN"`:            {0, -1},
		`"3"`:              {0, -1},
		`{}`:               {0, -1},
	} {
		var got struct {
			Tokens Count   `json:"tokens"`
			Cost   Dollars `json:"cost"`
			After  string  `json:"after"`
		}
		if err := json.Unmarshal([]byte(`{"tokens":`+raw+`,"cost":`+raw+`,"after":"x"}`), &got); err != nil || got.After != "x" {
			t.Errorf("%s: %v, and what follows is %q", raw, err, got.After)
		}
		usd := -1.0
		if got.Cost.USD != nil {
			usd = *got.Cost.USD
		}
		if got.Tokens != want.tokens || usd != want.usd {
			t.Errorf("%s: got %d tokens and %g USD, want %d and %g", raw, got.Tokens, usd, want.tokens, want.usd)
		}
	}
}
