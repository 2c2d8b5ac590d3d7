package simulator

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// messages is the dialect of Anthropic's Messages API.
type messages struct{}

// messagesRequest has every field that the dialect knows.
type messagesRequest struct {
	Model     string        `json:"model"`
	MaxTokens *int          `json:"max_tokens"`
	System    texts         `json:"system"`
	Messages  []contentTurn `json:"messages"`
	Thinking  struct {
		Type         string `json:"type"`
		BudgetTokens int    `json:"budget_tokens"`
		Display      string `json:"display"`
	} `json:"thinking"`
	OutputConfig struct {
		Effort string `json:"effort"`
		Format struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
	Tools      []map[string]any `json:"tools"`
	ToolChoice struct {
		Type                   string `json:"type"`
		Name                   string `json:"name"`
		DisableParallelToolUse bool   `json:"disable_parallel_tool_use"`
	} `json:"tool_choice"`
	Temperature   *float64        `json:"temperature"`
	Stream        bool            `json:"stream"`
	TopP          *float64        `json:"top_p"`
	TopK          *int            `json:"top_k"`
	StopSequences []string        `json:"stop_sequences"`
	Metadata      json.RawMessage `json:"metadata"`
	ServiceTier   string          `json:"service_tier"`
	CacheControl  json.RawMessage `json:"cache_control"`
}

// contentTurn is a turn whose content is a text or a list of blocks.
type contentTurn struct {
	Role    string        `json:"role"`
	Content contentBlocks `json:"content"`
}

// contentBlocks is a list of blocks. In JSON, it may also be a plain text.
type contentBlocks []contentBlock

// contentBlock has the fields of a block of any type that are read.
type contentBlock struct {
	Type      string `json:"type"`
	Text      string `json:"text"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
	// The marks of Anthropic and OpenAI.
	CacheControl json.RawMessage `json:"cache_control"`
	Breakpoint   json.RawMessage `json:"prompt_cache_breakpoint"`
	// The image of OpenAI's dialects, an address or an object with one, and of Anthropic's.
	ImageURL json.RawMessage `json:"image_url"`
	Detail   string          `json:"detail"`
	Source   *imageSource    `json:"source"`
}

// imageSource is where the data of an image of Anthropic's dialect is.
type imageSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
	URL       string `json:"url"`
}

// picture returns the block's image. ok is false if it has none.
func (b contentBlock) picture() (p picture, ok bool, err error) {
	switch {
	case b.Type == "image" && b.Source != nil && b.Source.Type == "url":
		p, err = addressed(b.Source.URL)
		return p, true, err
	case b.Type == "image" && b.Source != nil:
		p, err = inline(b.Source.MediaType, b.Source.Data)
		return p, true, err
	case b.Type == "image_url" || b.Type == "input_image":
		var whole struct {
			URL string `json:"url"`
		}
		if json.Unmarshal(b.ImageURL, &whole.URL) != nil && json.Unmarshal(b.ImageURL, &whole) != nil {
			return p, true, complain("Invalid image_url.")
		}
		p, err = addressed(whole.URL)
		return p, true, err
	}
	return p, false, nil
}

// UnmarshalJSON reads a plain text or a list of blocks.
func (b *contentBlocks) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*b = contentBlocks{{Type: "text", Text: text}}
		return nil
	}
	return json.Unmarshal(raw, (*[]contentBlock)(b))
}

// texts returns the text of all blocks, on separate lines. What follows a mark is on the same line.
func (b contentBlocks) texts() (t texts) {
	separate := ""
	for _, block := range b {
		if p, ok, err := block.picture(); ok {
			t.pictures, block.Text = append(t.pictures, p), p.String()
			if err != nil && t.wrong == nil {
				t.wrong = err
			}
		} else if block.Type != "" && !strings.HasSuffix(block.Type, "text") {
			continue
		}
		t.said += separate + block.Text
		separate = "\n"
		if block.CacheControl != nil || block.Breakpoint != nil {
			t.marks, separate = append(t.marks, len(t.said)), ""
		}
	}
	return t
}

func (b contentBlocks) have(kind string) bool {
	for _, block := range b {
		if block.Type == kind {
			return true
		}
	}
	return false
}

func (messages) parse(r *http.Request, body []byte) (*request, error) {
	var asked messagesRequest
	err := strictly(body, &asked)
	req := &request{
		model:    asked.Model,
		schema:   string(asked.OutputConfig.Format.Schema),
		json:     asked.OutputConfig.Format.Type != "",
		reason:   asked.Thinking.Type == "enabled" || asked.Thinking.Type == "adaptive",
		shown:    asked.Thinking.Display != "omitted",
		pausable: true,
	}
	if asked.System.said != "" {
		req.say("system", asked.System, areaTokens)
	}
	if asked.MaxTokens != nil {
		req.bound = *asked.MaxTokens
	}
	for _, turn := range asked.Messages {
		req.say(turn.Role, turn.Content.texts(), areaTokens)
		if turn.Content.have("server_tool_use") {
			req.paused++
		}
	}

	for _, tool := range asked.Tools {
		kind, _ := tool["type"].(string)
		req.search = req.search || strings.HasPrefix(kind, "web_search_")
	}

	switch {
	case r.Header.Get("Anthropic-Version") == "":
		return req, complain("anthropic-version: header is required")
	case err != nil:
		return req, complain("The request body is not valid JSON of a message: %v", err)
	}

	return req, asked.problem()
}

// schemaBound matches a bound of a number in a schema.
var schemaBound = regexp.MustCompile(`"(?:minimum|maximum)"\s*:\s*-?[0-9]`)

// problem returns why the dialect refuses the request; nil: it does not.
func (r messagesRequest) problem() error {
	budget := r.Thinking.BudgetTokens
	switch {
	case r.Model == "":
		return complain("model: Field required")
	case r.MaxTokens == nil:
		return complain("max_tokens: Field required")
	case *r.MaxTokens < 1:
		return complain("max_tokens: must be greater than or equal to 1")
	case len(r.Messages) == 0:
		return complain("messages: at least one message is required")
	case r.Stream:
		return complain("stream: the simulator does not stream")
	case r.Thinking.Type == "enabled" && budget < 1024:
		return complain("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
	case r.Thinking.Type == "enabled" && budget >= *r.MaxTokens:
		return complain("`max_tokens` must be greater than `thinking.budget_tokens`.")
	case r.Thinking.Type == "enabled" && (r.ToolChoice.Type == "any" || r.ToolChoice.Type == "tool"):
		return complain("Thinking may not be enabled when tool_choice forces tool use.")
	case r.Thinking.Type == "enabled" && r.Temperature != nil && *r.Temperature != 1:
		return complain("`temperature` may only be set to 1 when thinking is enabled.")
	}

	if schema := r.OutputConfig.Format.Schema; schemaBound.Match(schema) {
		return complain("output_config.format.schema: For 'integer' type, properties maximum, minimum are not supported")
	}

	for i, turn := range r.Messages {
		if err := turn.problem(i, i == len(r.Messages)-1); err != nil {
			return err
		}
	}

	return nil
}

// problem returns why the dialect refuses a turn; nil: it does not. What a model sent must come
// back unchanged.
func (t contentTurn) problem(i int, last bool) error {
	switch {
	case t.Role == "system":
		return complain("messages: Unexpected role \"system\". The Messages API accepts a top-level `system` parameter, not " +
			"\"system\" as an input message role.")
	case t.Role != "user" && t.Role != "assistant":
		return complain("messages.%d.role: Input should be 'user' or 'assistant'", i)
	case len(t.Content) == 0 && (t.Role == "user" || !last):
		return complain("messages.%d: all messages must have non-empty content except for the optional final assistant message", i)
	}
	for j, block := range t.Content {
		switch {
		case block.Type == "text" && block.Text == "":
			return complain("messages: text content blocks must be non-empty")
		case block.Type == "thinking" && block.Signature != signature(block.Thinking):
			return complain("messages.%d.content.%d: Invalid `signature` in `thinking` block", i, j)
		}
	}
	return nil
}

// head reports when each limit will be full again.
func (messages) head(h http.Header, c *call) {
	h.Set("Request-Id", c.id("req_"))
	for _, state := range c.told {
		name := "Anthropic-Ratelimit-" + strings.ReplaceAll(string(state.counted), "_", "-")
		full := time.Now().Add(state.reset + time.Second - 1).Truncate(time.Second) // rounded up
		h.Set(name+"-Limit", strconv.Itoa(state.max))
		h.Set(name+"-Remaining", strconv.Itoa(state.left))
		h.Set(name+"-Reset", full.UTC().Format(time.RFC3339))
	}
}

func (messages) hint(h http.Header, _ *call, p problem) {
	h.Set("Retry-After", roundedUp(p.wait, time.Second))
}

func (messages) key(h http.Header) (name, key string) { return "X-Api-Key", h.Get("X-Api-Key") }

var stopReasons = map[finish]string{
	stopped: "end_turn", truncated: "max_tokens", overflowing: "model_context_window_exceeded", refused: "refusal",
	filtered: "refusal", paused: "pause_turn",
}

// answer returns the body. It counts cached input separately from other input.
func (messages) answer(c *call) any {
	searches := 0
	if c.plan.found != nil {
		searches = 1
	}
	usage := map[string]any{
		"input_tokens":                c.spends.input - c.plan.cached - c.plan.cachedNow,
		"cache_creation_input_tokens": c.plan.cachedNow,
		"cache_read_input_tokens":     c.plan.cached,
		"output_tokens":               c.spends.output,
		"cache_creation":              map[string]int{"ephemeral_5m_input_tokens": c.plan.cachedNow, "ephemeral_1h_input_tokens": 0},
		"server_tool_use":             map[string]int{"web_search_requests": searches, "web_fetch_requests": 0},
		"service_tier":                c.tier(),
		"inference_geo":               "global",
	}

	if c.plan.reasoning > 0 {
		usage["output_tokens_details"] = map[string]int{"thinking_tokens": c.plan.reasoning}
	}
	var details any
	if stopReasons[c.plan.finish] == "refusal" {
		details = map[string]any{"type": "refusal", "category": nil, "explanation": nil}
	}
	return map[string]any{
		"id":            c.id("msg_"),
		"type":          "message",
		"role":          "assistant",
		"model":         c.named(),
		"content":       c.blocks(),
		"stop_reason":   stopReasons[c.plan.finish],
		"stop_sequence": nil,
		"stop_details":  details,
		"usage":         usage,
	}
}

// tier returns the service tier in which a call was answered.
func (c *call) tier() string {
	if c.batched {
		return "batch"
	}
	return "standard"
}

// blocks returns the thoughts, the search and the text of an answer. A text with citations is in
// two blocks.
func (c *call) blocks() []any {
	blocks := []any{}
	if c.plan.thoughts != "" {
		thinking := c.plan.thoughts
		if !c.req.shown {
			thinking = ""
		}
		blocks = append(blocks, map[string]any{"type": "thinking", "thinking": thinking, "signature": signature(thinking)})
	}

	text := c.plan.text
	if c.req.search && c.plan.finish != refused && c.plan.finish != filtered {
		blocks = append(blocks, c.searchBlocks()...)
	}
	switch half := strings.LastIndexByte(text[:len(text)/2], ' ') + 1; {
	case text == "":
		return blocks
	case c.plan.found == nil:
		return append(blocks, map[string]any{"type": "text", "text": text})
	case half > 0:
		blocks = append(blocks, map[string]any{"type": "text", "text": text[:half]})
		text = text[half:]
	}

	var citations []any
	for _, s := range c.plan.found.sources {
		citations = append(citations, map[string]any{
			"type": "web_search_result_location", "url": s.url, "title": s.title, "encrypted_index": signature(s.url), "cited_text": s.excerpt,
		})
	}

	return append(blocks, map[string]any{"type": "text", "text": text, "citations": citations})
}

// searchBlocks returns a search with its results. Without evidence, half of the searches found
// nothing, and the other calls did not search.
func (c *call) searchBlocks() []any {
	var result any
	switch found := c.plan.found; {
	case found != nil:
		var results []any
		for _, s := range found.sources {
			results = append(
				results,
				map[string]any{"type": "web_search_result", "url": s.url, "title": s.title, "encrypted_content": signature(s.excerpt), "page_age": nil},
			)
		}
		result = results
	case c.draw("in vain") < 0.5:
		result = map[string]string{"type": "web_search_tool_result_error", "error_code": "unavailable"}
	default:
		return nil
	}
	id, model := c.id("srvtoolu_"), map[string]string{"type": "direct"} // by the model, not by a program it wrote

	return []any{
		map[string]any{
			"type": "server_tool_use", "id": id, "name": "web_search", "input": map[string]string{"query": c.req.topic()},
			"caller": model,
		},
		map[string]any{"type": "web_search_tool_result", "tool_use_id": id, "content": result, "caller": model},
	}
}
