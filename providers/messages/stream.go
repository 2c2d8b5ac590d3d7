package messages

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
)

// event is an event of a stream, with the fields from which a message is built.
type event struct {
	Type    string         `json:"type"`
	Message map[string]any `json:"message"`
	Index   int            `json:"index"`
	Block   map[string]any `json:"content_block"`
	Delta   map[string]any `json:"delta"`
	Usage   map[string]any `json:"usage"`
}

// joined returns the message that the events of a stream amount to, or the event with its error. The stream was not
// asked for.
func joined(parts []json.RawMessage) (json.RawMessage, error) {
	message := map[string]any{}
	var blocks []map[string]any
	for _, raw := range parts {
		var e event
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, fmt.Errorf("a stream that was not asked for: %w", err)
		}
		switch e.Type {
		case "error":
			return raw, nil
		case "message_start":
			maps.Copy(message, e.Message)
		case "content_block_start":
			blocks = append(blocks, e.Block)
		case "content_block_delta":
			if e.Index < 0 || e.Index >= len(blocks) || blocks[e.Index] == nil {
				return nil, fmt.Errorf("a stream that was not asked for: block %d has not begun", e.Index)
			}
			grow(blocks[e.Index], e.Delta)
		case "message_delta":
			maps.Copy(message, e.Delta)
			usage, _ := message["usage"].(map[string]any)
			if usage == nil {
				usage = map[string]any{}
			}
			maps.Copy(usage, e.Usage)
			message["usage"] = usage
		}
	}

	if reason, _ := message["stop_reason"].(string); reason == "" {
		return nil, errors.New("the answer broke off: its stream has no end")
	}
	message["content"] = blocks
	return json.Marshal(message)
}

// grow appends a delta to its block: a text, a thought, a signature, or a citation.
func grow(block, delta map[string]any) {
	for _, field := range []string{"text", "thinking", "signature"} {
		if more, ok := delta[field].(string); ok {
			text, _ := block[field].(string)
			block[field] = text + more
		}
	}
	if citation, ok := delta["citation"]; ok {
		all, _ := block["citations"].([]any)
		block["citations"] = append(all, citation)
	}
}
