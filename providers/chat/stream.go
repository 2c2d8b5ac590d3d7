package chat

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
)

// join assembles a completion that was streamed although it was requested as a whole.
func (c *completion) join(parts []json.RawMessage, ended bool) error {
	for _, raw := range parts {
		var part struct {
			completion
			Choices []struct {
				choice
				Index int     `json:"index"`
				Delta message `json:"delta"`
			} `json:"choices"`
		}
		if err := json.Unmarshal(raw, &part); err != nil {
			return fmt.Errorf("a stream that was not asked for: %w", err)
		}

		c.Model = cmp.Or(c.Model, part.Model)
		c.Error = cmp.Or(c.Error, part.Error)
		c.Usage = cmp.Or(part.Usage, c.Usage)
		c.ServiceTier = cmp.Or(part.ServiceTier, c.ServiceTier)
		c.Citations = append(c.Citations, part.Citations...)
		c.SearchResults = append(c.SearchResults, part.SearchResults...)
		for _, more := range part.Choices {
			if more.Index < 0 || more.Index > len(c.Choices) {
				return fmt.Errorf("a stream that was not asked for: choice %d", more.Index)
			}
			if more.Index == len(c.Choices) {
				c.Choices = append(c.Choices, choice{})
			}
			c.Choices[more.Index].add(more.choice, more.Delta)
		}
	}
	if len(c.Choices) > 0 && c.Choices[0].FinishReason == "" && !ended && c.Error == nil {
		return errors.New("the answer broke off: its stream has no end")
	}
	return nil
}

// add appends a part of a choice. Some servers end the stream with a part that repeats the whole message, which add
// ignores.
func (c *choice) add(part choice, delta message) {
	c.FinishReason = cmp.Or(part.FinishReason, c.FinishReason)
	c.Error = cmp.Or(c.Error, part.Error)
	if part.Text != nil {
		text := *part.Text
		if c.Text != nil {
			text = *c.Text + text
		}
		c.Text = &text
	}
	c.LogProbs.Content = append(c.LogProbs.Content, part.LogProbs.Content...)

	m := &c.Message
	if m.Content.text == "" && m.Reasoning == "" && m.ReasoningContent == "" {
		*m = part.Message
	}
	m.Content.text += delta.Content.text
	m.Content.thoughts += delta.Content.thoughts
	m.Refusal += delta.Refusal
	m.Reasoning += delta.Reasoning
	m.ReasoningContent += delta.ReasoningContent
	m.Annotations = append(m.Annotations, delta.Annotations...)
	if delta.ExecutedTools.searches > 0 || len(delta.ExecutedTools.sources) > 0 {
		m.ExecutedTools = delta.ExecutedTools
	}
}
