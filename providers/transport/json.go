package transport

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
)

// JSONText returns the text of an answer as Result.JSON; nil if the request has no schema or the text is not one JSON
// value.
func JSONText(req *providers.Request, text string) json.RawMessage {
	if req.Schema == nil {
		return nil
	}
	if text = strings.TrimSpace(text); !json.Valid([]byte(text)) {
		return nil
	}
	return json.RawMessage(text)
}

// Misfiled returns the text of an answer that a server took for reasoning. The answer has no text, and the reasoning is
// one JSON object, as vLLM and Ollama return it when a model does not think.
func Misfiled(reasoning string) (text string, ok bool) {
	text = strings.TrimSpace(reasoning)
	return text, strings.HasPrefix(text, "{") && json.Valid([]byte(text))
}

// Count is a number of tokens in an answer. Anything else reads as 0: an odd count must not lose a paid answer.
type Count int64

// UnmarshalJSON never fails.
func (c *Count) UnmarshalJSON(raw []byte) error {
	var n float64
	if json.Unmarshal(raw, &n) == nil && n > 0 && n < math.MaxInt32 {
		*c = Count(n)
	}
	return nil
}

// Dollars is the cost of a call as the answer reports it. USD is nil if it reports none, or an impossible one: a
// negative cost, or one beyond all prices, would ruin every sum and budget that it enters.
type Dollars struct{ USD *float64 }

// UnmarshalJSON never fails. Perplexity gives an object with the parts of the cost.
func (d *Dollars) UnmarshalJSON(raw []byte) error {
	var parts struct {
		Total *float64 `json:"total_cost"`
	}
	var n *float64
	if json.Unmarshal(raw, &n) != nil {
		_ = json.Unmarshal(raw, &parts) // leaves it empty
		n = parts.Total
	}
	d.USD = credible(n)
	return nil
}

// ticksPerUSD is the number of xAI's ticks in a dollar: https://docs.x.ai/developers/cost-tracking.
const ticksPerUSD = 1e10

// Ticks is a cost in xAI's unit, read as Dollars is.
type Ticks Dollars

// UnmarshalJSON never fails.
func (t *Ticks) UnmarshalJSON(raw []byte) error {
	var n *float64
	if json.Unmarshal(raw, &n) == nil && n != nil {
		usd := *n / ticksPerUSD
		t.USD = credible(&usd)
	}
	return nil
}

// credible returns a cost if it is possible; otherwise nil.
func credible(usd *float64) *float64 {
	if usd == nil || !(*usd >= 0) || *usd > providers.GreatestCost {
		return nil
	}
	return usd
}

// Tier is the service tier that an answer names, in lower case; empty for the standard one and
// for anything but a name.
type Tier string

// UnmarshalJSON never fails.
func (t *Tier) UnmarshalJSON(raw []byte) error {
	if name := strings.ToLower(word(raw)); !providers.StandardTier(name) {
		*t = Tier(name)
	}
	return nil
}
