package messages

import (
	"encoding/json"

	"github.com/evalfleet/evalfleet/providers"
)

// searchTool is the name that the search must have.
const searchTool = "web_search"

// block is a piece of an answer's content.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	ToolUseID string          `json:"tool_use_id"`
	Input     json.RawMessage `json:"input"`     // of a tool's use
	Citations json.RawMessage `json:"citations"` // of a text
	Content   json.RawMessage `json:"content"`   // of a tool's result
}

// grounding is the evidence of searches. A failed search is none, nor is one without results.
func (t *turn) grounding() providers.Grounding {
	g := providers.Grounding{Searches: t.searches}
	var cited, given []providers.Source
	made, failed := map[string]bool{}, false
	for _, b := range t.blocks {
		switch b.Type {
		case "text":
			cited = append(cited, pages(b.Citations)...)
		case "web_search_tool_result":
			if found := pages(b.Content); found != nil {
				made[b.ToolUseID] = true
				given = append(given, found...)
			} else {
				failed = true
			}
		}
	}
	for _, b := range t.blocks {
		if b.Type == "server_tool_use" && b.Name == searchTool && made[b.ID] {
			if query := b.query(); query != "" {
				g.Queries = append(g.Queries, query)
			}
		}
	}
	switch {
	case len(made) == 0 && failed:
		g.Searches = 0 // nor are they billed
	case g.Searches == 0:
		g.Searches = len(made) // of an endpoint that does not count them
	}
	g.Sources = providers.UniqueSources(append(cited, given...))
	return g
}

// query is what a search was for; empty where it cannot be read.
func (b block) query() string {
	var input struct {
		Query string `json:"query"`
	}
	_ = json.Unmarshal(b.Input, &input)
	return input.Query
}

// pages are those of a list of citations or of results, in which both have their
// address; nil: it is no list, but an error.
func pages(raw json.RawMessage) []providers.Source {
	var listed []providers.Source
	if json.Unmarshal(raw, &listed) != nil {
		return nil
	}
	return listed
}
