package expect

import (
	"encoding/json"
	"strings"
)

// https://platform.openai.com/docs/api-reference/chat/object, and what others add.
func chat(root any) (Answer, string) {
	if at(root, "error") != nil {
		return Answer{Classes: failed(int(count(root, "error", "code")), strings.ToLower(encoded(at(root, "error"))))}, ""
	}
	choice := at(root, "choices", 0)
	if choice == nil {
		return Answer{Classes: empty}, ""
	}
	usage := at(root, "usage")
	a := Answer{
		Finish: "stop", Counted: usage != nil,
		Input: count(usage, "prompt_tokens"),
		Cached: max(
			count(usage, "prompt_tokens_details", "cached_tokens"), count(usage, "prompt_cache_hit_tokens"),
			count(usage, "num_cached_tokens"), count(usage, "cached_tokens"),
		),
		Reasoning: count(usage, "completion_tokens_details", "reasoning_tokens"),
		Tier:      tier(text(root, "service_tier") + text(usage, "service_tier")),
		CostUSD:   float(usage, "cost"),
		Searches: int(max(count(usage, "server_tool_use", "web_search_requests"), count(usage, "server_tool_use_details", "web_search_requests"),
			count(usage, "num_search_queries"))),
	}
	a.Output = count(usage, "completion_tokens")
	if total := count(usage, "total_tokens"); total > a.Input {
		a.Output = total - a.Input // some leave reasoning out of the completion
	}
	if a.CostUSD == nil {
		a.CostUSD = float(usage, "cost", "total_cost") // https://docs.perplexity.ai
	}
	if ticks := float(usage, "cost_in_usd_ticks"); a.CostUSD == nil && ticks != nil {
		usd := *ticks / 1e10
		a.CostUSD = &usd
	}
	message := at(choice, "message")
	for _, annotation := range list(message, "annotations") {
		a.cite(text(annotation, "url_citation", "url"))
	}
	searched := 0
	for _, tool := range list(message, "executed_tools") { // https://console.groq.com/docs/web-search
		if strings.Contains(text(tool, "type"), "search") && !strings.Contains(text(tool, "type"), "visit") {
			searched++
		}
		for _, page := range list(tool, "search_results", "results") {
			a.cite(text(page, "url"))
		}
	}
	a.Searches = max(a.Searches, searched)
	for _, page := range append(list(root, "citations"), list(root, "search_results")...) {
		address, _ := page.(string)
		a.cite(address + text(page, "url"))
	}

	a.Text = text(message, "content")
	for _, part := range list(message, "content") {
		if text(part, "type") == "text" {
			a.Text += text(part, "text")
		}
	}
	switch reason := text(choice, "finish_reason"); {
	case at(choice, "error") != nil:
		return Answer{Classes: failed(int(count(choice, "error", "code")), strings.ToLower(encoded(at(choice, "error"))))}, ""
	case reason == "error":
		return Answer{Classes: empty}, ""
	case text(message, "refusal") != "", reason == "content_filter":
		a.Finish = "refused"
	case reason == "length", reason == "model_length":
		a.Finish = "truncated"
	case a.Text == "":
		a.Classes = empty
	}
	return a, ""
}

func encoded(value any) string {
	raw, _ := json.Marshal(value) // of values that were read from JSON
	return string(raw)
}

// https://platform.openai.com/docs/api-reference/responses/object
func responses(root any) (Answer, string) {
	usage := at(root, "usage")
	a := Answer{
		Finish: "stop", Counted: usage != nil,
		Input: count(usage, "input_tokens"), Output: count(usage, "output_tokens"),
		Cached:    count(usage, "input_tokens_details", "cached_tokens"),
		Reasoning: count(usage, "output_tokens_details", "reasoning_tokens"),
		Tier:      tier(text(root, "service_tier")),
		CostUSD:   float(usage, "cost"),
	}
	if ticks := float(usage, "cost_in_usd_ticks"); ticks != nil {
		usd := *ticks / 1e10
		a.CostUSD = &usd
	}

	switch status := text(root, "status"); status {
	case "queued", "in_progress":
		return Answer{}, "a job that has not ended"
	case "failed":
		return Answer{Classes: failed(500, strings.ToLower(encoded(at(root, "error"))))}, ""
	}

	said, refusal := "", false
	for _, item := range list(root, "output") {
		switch text(item, "type") {
		case "message":
			for _, part := range list(item, "content") {
				switch text(part, "type") {
				case "output_text":
					if text(item, "phase") != "commentary" {
						said += text(part, "text")
					}
				case "refusal":
					refusal = true
				}
				for _, annotation := range list(part, "annotations") {
					a.cite(text(annotation, "url"))
				}
			}
		case "web_search_call":
			if text(item, "status") == "completed" {
				if kind := text(item, "action", "type"); kind == "search" || kind == "" {
					a.Searches++
				}
				a.cite(text(item, "action", "url"))
				for _, source := range list(item, "action", "sources") {
					a.cite(text(source, "url"))
				}
			}
		}
	}

	a.Text = said
	switch reason := text(root, "incomplete_details", "reason"); {
	case refusal, reason == "content_filter":
		a.Finish = "refused"
	case text(root, "status") == "incomplete":
		a.Finish = "truncated"
	case said == "":
		a.Classes = empty
	}

	return a, ""
}

// https://platform.claude.com/docs/en/api/messages
func messages(root any) (Answer, string) {
	if text(root, "type") == "error" {
		return Answer{Classes: failed(0, strings.ToLower(encoded(root)))}, ""
	}
	if at(root, "content") == nil {
		return Answer{}, "not an answer of this dialect"
	}
	usage := at(root, "usage")
	a := Answer{
		Finish: "stop", Counted: usage != nil,
		Input:     count(usage, "input_tokens") + count(usage, "cache_read_input_tokens") + count(usage, "cache_creation_input_tokens"),
		Output:    count(usage, "output_tokens"),
		Cached:    count(usage, "cache_read_input_tokens"),
		Reasoning: count(usage, "output_tokens_details", "thinking_tokens"),
		Tier:      tier(text(usage, "service_tier")),
		Searches:  int(count(usage, "server_tool_use", "web_search_requests")),
	}

	for _, block := range list(root, "content") {
		if text(block, "type") == "text" {
			a.Text += text(block, "text")
			for _, citation := range list(block, "citations") {
				a.cite(text(citation, "url"))
			}
		}
		if text(block, "type") == "web_search_tool_result" {
			for _, page := range list(block, "content") {
				a.cite(text(page, "url"))
			}
		}
	}

	switch text(root, "stop_reason") {
	case "max_tokens", "model_context_window_exceeded":
		a.Finish = "truncated"
	case "refusal":
		a.Finish = "refused"
	case "tool_use":
		a.Classes = empty
	case "pause_turn":
		return Answer{}, "a paused turn, whose continuation is another recording"
	default:
		if a.Text == "" {
			a.Classes = empty
		}
	}

	return a, ""
}

// https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse
func generate(root any) (Answer, string) {
	usage := at(root, "usageMetadata")
	a := Answer{
		Finish: "stop", Counted: usage != nil,
		Input:     count(usage, "promptTokenCount") + count(usage, "toolUsePromptTokenCount"),
		Cached:    count(usage, "cachedContentTokenCount"),
		Reasoning: count(usage, "thoughtsTokenCount"),
		Tier:      tier(text(usage, "serviceTier")),
	}
	a.Output = count(usage, "candidatesTokenCount") + count(usage, "thoughtsTokenCount")
	if total := count(usage, "totalTokenCount"); total > 0 {
		a.Output = total - a.Input
	}
	if text(root, "promptFeedback", "blockReason") != "" {
		a.Finish = "refused"
		return a, ""
	}
	candidate := at(root, "candidates", 0)
	if candidate == nil {
		return Answer{Classes: empty}, ""
	}
	queries := map[string]bool{}
	for _, query := range list(candidate, "groundingMetadata", "webSearchQueries") {
		if q, _ := query.(string); q != "" {
			queries[q] = true
		}
	}

	for _, part := range list(candidate, "content", "parts") {
		if at(part, "thought") != true {
			a.Text += text(part, "text")
		}
		if text(part, "toolCall", "toolType") == "GOOGLE_SEARCH_WEB" {
			for _, query := range list(part, "toolCall", "args", "queries") {
				if q, _ := query.(string); q != "" {
					queries[q] = true
				}
			}
		}
	}

	a.Searches = len(queries)
	for _, chunk := range list(candidate, "groundingMetadata", "groundingChunks") {
		a.cite(text(chunk, "web", "uri"))
	}
	switch text(candidate, "finishReason") {
	case "MAX_TOKENS":
		a.Finish = "truncated"
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR":
		a.Finish = "refused"
	case "STOP", "":
		if a.Text == "" {
			a.Classes = empty
		}
	default:
		a.Classes = empty
	}

	return a, ""
}

// https://github.com/ollama/ollama/blob/main/docs/api.md
func ollama(root any) (Answer, string) {
	if at(root, "message") == nil && at(root, "error") == nil {
		return Answer{}, "not an answer of this dialect"
	}
	a := Answer{
		Finish: "stop", Text: text(root, "message", "content"), Counted: count(root, "prompt_eval_count") > 0,
		Input: count(root, "prompt_eval_count"), Output: count(root, "eval_count"),
	}
	switch {
	case at(root, "done") != true:
		return Answer{}, "one event of a stream"
	case text(root, "done_reason") == "length":
		a.Finish = "truncated"
	case a.Text == "":
		a.Classes = empty
	}
	return a, ""
}
