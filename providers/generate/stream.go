package generate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
)

// join assembles a response that was streamed although it was requested as a whole.
func (r *response) join(parts []json.RawMessage) error {
	for _, raw := range parts {
		var part response
		if err := json.Unmarshal(raw, &part); err != nil {
			return fmt.Errorf("a stream that was not asked for: %w", err)
		}
		r.Error = cmp.Or(r.Error, part.Error)
		r.Usage = cmp.Or(part.Usage, r.Usage)
		r.Model = cmp.Or(part.Model, r.Model)
		if r.PromptFeedback.BlockReason == "" {
			r.PromptFeedback = part.PromptFeedback
		}
		for i, more := range part.Candidates {
			if i == len(r.Candidates) {
				r.Candidates = append(r.Candidates, candidate{})
			}
			c := &r.Candidates[i]
			c.Content.Parts = append(c.Content.Parts, more.Content.Parts...)
			c.FinishReason = cmp.Or(more.FinishReason, c.FinishReason)
			c.FinishMessage = cmp.Or(more.FinishMessage, c.FinishMessage)
			c.Grounding.Queries = append(c.Grounding.Queries, more.Grounding.Queries...)
			c.Grounding.Chunks = append(c.Grounding.Chunks, more.Grounding.Chunks...)
			c.LogProbs.Chosen = append(c.LogProbs.Chosen, more.LogProbs.Chosen...)
			c.LogProbs.Top = append(c.LogProbs.Top, more.LogProbs.Top...)
			if more.Safety != nil {
				c.Safety = more.Safety
			}
			if more.URLContext != nil {
				c.URLContext = more.URLContext
			}
		}
	}

	if len(r.Candidates) > 0 && r.Candidates[0].FinishReason == "" && r.Error == nil {
		return errors.New("the answer broke off: its stream has no end")
	}
	return nil
}
