package transport

import (
	"encoding/json"
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
