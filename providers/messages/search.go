package messages

import (
	"encoding/json"

	"github.com/evalfleet/evalfleet/providers"
)

// searchTool is the name that the API requires for the search tool.
const searchTool = "web_search"

// block is one block of an answer's content.
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

// grounding returns the evidence of searches. Searches that failed or had no results are no evidence.
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
		g.Searches = 0 // they are not billed either
	case g.Searches == 0:
		g.Searches = len(made) // the endpoint does not count them
	}

	g.Sources = providers.UniqueSources(append(cited, given...))
	return g
}

// query returns the query of a search; empty if it cannot be read.
func (b block) query() string {
	var input struct {
		Query string `json:"query"`
	}
	_ = json.Unmarshal(b.Input, &input)
	return input.Query
}

// pages returns the sources in a list of citations or of results, which have their address in the same field. nil: raw
// is not a list but an error.
func pages(raw json.RawMessage) []providers.Source {
	var listed []providers.Source
	if json.Unmarshal(raw, &listed) != nil {
		return nil
	}
	return listed
}
