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
