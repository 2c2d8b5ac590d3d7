package simulator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// ollama is the dialect of Ollama's own API.
type ollama struct{}

// contextTokens is the context that Ollama uses unless a request asks for more.
const contextTokens = 4096

// ollamaRequest has the fields that are read; Ollama ignores unknown ones.
type ollamaRequest struct {
	Model    string          `json:"model"`
	Messages []ollamaMessage `json:"messages"`
	Format   json.RawMessage `json:"format"`
	Think    any             `json:"think"`  // whether to reason, or how much
	Stream   *bool           `json:"stream"` // nil: true
	Truncate *bool           `json:"truncate"`
	Shift    *bool           `json:"shift"`
	LogProbs bool            `json:"logprobs"`
	Top      *int            `json:"top_logprobs"`
	Options  struct {
		NumPredict int `json:"num_predict"`
		NumCtx     int `json:"num_ctx"`
	} `json:"options"`
}

// ollamaMessage is a turn, whose images are beside its text.
type ollamaMessage struct {
	Role    string   `json:"role"`
	Content string   `json:"content"`
	Images  []string `json:"images"`
}

// texts returns the message's text. A model finds an image by the line that begins with its number, if there is one.
func (m ollamaMessage) texts() (t texts) {
	t.said = m.Content
	for i, encoded := range m.Images {
		p, err := inline("", encoded)
		if t.wrong == nil {
			t.wrong = err
		}
		t.pictures = append(t.pictures, p)
		before, after, named := strings.Cut(t.said, fmt.Sprintf("[image %d:", i+1))
		if line, rest, more := strings.Cut(after, "\n"); named && more {
			t.said = before + fmt.Sprintf("[image %d:", i+1) + line + "\n" + p.String() + "\n" + rest
		} else {
			t.said += "\n" + p.String()
		}
	}
	return t
}

func (ollama) parse(_ *http.Request, body []byte) (*request, error) {
	var asked ollamaRequest
	err := json.Unmarshal(body, &asked)
	format := strings.TrimSpace(string(asked.Format))
	req := &request{
		model:  asked.Model,
		bound:  max(asked.Options.NumPredict, 0),
		json:   format != "" && format != "null" && format != `""`,
		reason: asked.Think != nil && asked.Think != false,
		shown:  true,
	}
	for _, m := range asked.Messages {
		req.say(m.Role, m.texts(), squareTokens)
	}
	if strings.HasPrefix(format, "{") {
		req.schema = format
	}
	asked.fit(req)
	switch {
	case err != nil:
		return req, err
	case asked.Model == "":
		return req, complain("model is required")
	case asked.Stream == nil || *asked.Stream:
		return req, complain("the simulator does not stream: set stream to false")
	case req.json && req.schema == "" && format != `"json"`:
		return req, complain("invalid format: %s; expected \"json\" or a valid JSON Schema object", format)
	}

	return req, req.wantsLogProbs(asked.LogProbs, asked.Top)
}

// fit truncates a conversation to the context. The oldest part is dropped silently, unless the
// request forbids it.
func (r *ollamaRequest) fit(req *request) {
	window := r.Options.NumCtx
	if window < 1 {
		window = contextTokens
	}
	over := req.inputTokens() > window
	if keep := r.Truncate != nil && !*r.Truncate; over && keep || !over && r.Shift != nil && !*r.Shift {
		req.window = window
		return
	}
	for len(req.messages) > 1 && req.inputTokens() > window {
		oldest := slices.IndexFunc(req.messages[:len(req.messages)-1], func(m message) bool { return m.Role != "system" })
		req.messages = slices.Delete(slices.Clone(req.messages), max(oldest, 0), max(oldest, 0)+1)
	}
	if over := 4 * (req.inputTokens() - window); over > 0 {
		last := &req.messages[len(req.messages)-1]
		last.Content = strings.ToValidUTF8(last.Content[min(over, len(last.Content)):], "")
	}
}

// head sets no headers: Ollama reports no limits.
func (ollama) head(http.Header, *call) {}

// hint sets no headers: Ollama does not say when to come back.
func (ollama) hint(http.Header, *call, problem) {}

func (ollama) key(h http.Header) (name, key string) { return bearer(h) }

// answer returns the body. It counts only the part of the prompt that is not cached, and leaves out
// counts of 0.
func (ollama) answer(c *call) any {
	took := time.Since(c.admitted)
	said := map[string]string{"role": "assistant", "content": c.plan.text}
	if c.plan.thoughts != "" {
		said["thinking"] = c.plan.thoughts
	}
	body := c.ollamaBody(said, "stop")
	if c.plan.finish == truncated || c.plan.finish == overflowing {
		body["done_reason"] = "length"
	}
	if c.req.logProbs {
		body["logprobs"] = openAILogProbs(c.tokensOf(c.plan.text))
	}
	body["total_duration"], body["eval_duration"] = took, took
	if read := c.spends.input - c.plan.cached; read > 0 {
		body["prompt_eval_count"] = read
	}
	if c.spends.output > 0 {
		body["eval_count"] = c.spends.output
	}
	return body
}

func (c *call) ollamaBody(said map[string]string, reason string) map[string]any {
	return map[string]any{
		"model": c.named(), "created_at": time.Now().UTC().Format(time.RFC3339Nano),
		"message": said, "done": true, "done_reason": reason,
	}
}

var ollamaWords = map[Failure]words{
	RateLimited:      {429, "", "", "too many requests"},
	QuotaDaily:       {429, "", "", "you've reached your daily usage limit, please try again tomorrow"},
	QuotaBilling:     {402, "", "", "payment required"},
	SpendLimit:       {402, "", "", "payment required"},
	Overloaded:       {503, "", "", "server busy, please try again.  maximum pending requests exceeded"},
	ServerError:      {500, "", "", "llama runner process has terminated: exit status 2"},
	FailedIn200:      {200, "", "", "an error was encountered while running the model: unexpected EOF"},
	ContextLength:    {400, "", "", "the input length exceeds the context length"},
	Auth:             {401, "", "", "unauthorized"},
	keyMissing:       {401, "", "", "unauthorized"},
	ModelUnavailable: {404, "", "", "model '%s' not found"},
	BadRequest:       {400, "", "", "invalid options: temperature"},
	Refused:          {400, "", "", "this request is refused"},
	withoutSystem:    {400, "", "", "template: System role not supported"},
	withoutSchema:    {400, "", "", "invalid format: a JSON Schema object is not supported by this model"},
}

func (ollama) problem(c *call, p problem) (status int, body any) {
	if p.failure == Loading {
		return http.StatusOK, c.ollamaBody(map[string]string{"role": "assistant", "content": ""}, "load")
	}
	said := ollamaWords[p.failure]
	return cmp.Or(p.status, said.status), map[string]string{"error": said.say(c, p)}
}
