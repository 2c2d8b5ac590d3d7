package transport

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
)

// JSONText is Result.JSON of an answer's text; nil where no schema was asked or the
// text is not one JSON value.
func JSONText(req *providers.Request, text string) json.RawMessage {
	if req.Schema == nil {
		return nil
	}
	if text = strings.TrimSpace(text); !json.Valid([]byte(text)) {
		return nil
	}
	return json.RawMessage(text)
}

// Count is a number of tokens in an answer. What is no such number reads as 0: an
// odd count must not cost the answer that was paid for.
type Count int64

// UnmarshalJSON never fails.
func (c *Count) UnmarshalJSON(raw []byte) error {
	var n float64
	if json.Unmarshal(raw, &n) == nil && n > 0 && n < math.MaxInt32 {
		*c = Count(n)
	}
	return nil
}

// mostUSD is the highest cost of one call that an answer is believed.
const mostUSD = 100_000

// Dollars is what an answer says that its call cost. USD is nil where it says
// nothing, or what cannot be: a negative cost, or one beyond all prices, would ruin
// every sum and budget that it enters.
type Dollars struct{ USD *float64 }

// UnmarshalJSON never fails.
func (d *Dollars) UnmarshalJSON(raw []byte) error {
	var n *float64
	if json.Unmarshal(raw, &n) == nil && n != nil && *n >= 0 && *n <= mostUSD {
		d.USD = n
	}
	return nil
}
