package simulator

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
)

// generate is the dialect of Gemini's generateContent.
type generate struct{}

// content is a turn. Each part is a text, or something that is ignored.
type content struct {
	Role  string `json:"role"`
	Parts []struct {
		Text             string `json:"text"`
		Thought          bool   `json:"thought"`
		ThoughtSignature string `json:"thoughtSignature"`
		InlineData       *struct {
			MIMEType string `json:"mimeType"`
			Data     string `json:"data"`
		} `json:"inlineData"`
	} `json:"parts"`
}

func (c content) texts() (t texts) {
	var said []string
	for _, part := range c.Parts {
		switch {
		case part.InlineData != nil:
			p, err := inline(part.InlineData.MIMEType, part.InlineData.Data)
			if err == nil && p.kind == "gif" {
				err = complain("Unsupported MIME type: image/gif")
			}
			if t.wrong == nil {
				t.wrong = err
			}
			t.pictures, said = append(t.pictures, p), append(said, p.String())
		case !part.Thought:
			said = append(said, part.Text)
		}
	}
	t.said = strings.Join(said, "\n")
	return t
}

// generateRequest has every field of the dialect that matters for a text; Google refuses unknown
// fields.
type generateRequest struct {
	Contents          []content                    `json:"contents"`
	SystemInstruction content                      `json:"systemInstruction"`
	Tools             []map[string]json.RawMessage `json:"tools"`
	ToolConfig        struct {
		Shown           bool            `json:"includeServerSideToolInvocations"`
		FunctionCalling json.RawMessage `json:"functionCallingConfig"`
		Retrieval       json.RawMessage `json:"retrievalConfig"`
	} `json:"toolConfig"`
	SafetySettings   json.RawMessage `json:"safetySettings"`
	CachedContent    string          `json:"cachedContent"`
	GenerationConfig struct {
		MaxOutputTokens    int             `json:"maxOutputTokens"`
		ResponseMIMEType   string          `json:"responseMimeType"`
		ResponseSchema     json.RawMessage `json:"responseSchema"`
		ResponseJSONSchema json.RawMessage `json:"responseJsonSchema"`
		ThinkingConfig     *struct {
			IncludeThoughts bool   `json:"includeThoughts"`
			ThinkingBudget  *int   `json:"thinkingBudget"`
			ThinkingLevel   string `json:"thinkingLevel"`
		} `json:"thinkingConfig"`
		CandidateCount   int      `json:"candidateCount"`
		StopSequences    []string `json:"stopSequences"`
		Temperature      *float64 `json:"temperature"`
		TopP             *float64 `json:"topP"`
		TopK             *float64 `json:"topK"`
		Seed             *int     `json:"seed"`
		ResponseLogProbs bool     `json:"responseLogprobs"`
		LogProbs         *int     `json:"logprobs"`
		PresencePenalty  *float64 `json:"presencePenalty"`
		FrequencyPenalty *float64 `json:"frequencyPenalty"`
	} `json:"generationConfig"`
}

// parse reads the model from the path, /v1beta/models/{model}:generateContent.
func (generate) parse(r *http.Request, body []byte) (*request, error) {
	model, method, _ := strings.Cut(r.PathValue("call"), ":")
	var asked generateRequest
	err := strictly(body, &asked)
	config := asked.GenerationConfig
	req := &request{
		model:    model,
		schema:   string(config.ResponseJSONSchema) + string(config.ResponseSchema),
		bound:    config.MaxOutputTokens,
		json:     config.ResponseMIMEType == "application/json",
		messages: turns(asked.SystemInstruction.texts().said),
	}

	for _, turn := range asked.Contents {
		role := turn.Role
		if role == "model" {
			role = "assistant"
		}
		req.say(role, turn.texts(), cropTokens)
	}

	for _, tool := range asked.Tools {
		for _, name := range []string{"googleSearch", "googleSearchRetrieval"} { // the latter is Gemini 1.5's
			if _, ok := tool[name]; ok {
				req.search = true
			}
		}
	}

	if thinking := config.ThinkingConfig; thinking != nil {
		req.reason = thinking.ThinkingBudget == nil || *thinking.ThinkingBudget != 0
		req.shown = thinking.IncludeThoughts
	}
	newer := strings.HasPrefix(model, "gemini-3")
	switch {
	case !newer:
		req.exclusive = SearchRefused
	case !asked.ToolConfig.Shown:
		req.exclusive = SearchIgnored
	}

	req.searchShown = asked.ToolConfig.Shown
	switch {
	case asked.ToolConfig.Shown && !newer:
		return req, complaint("Tool call context circulation is not enabled for models/" + model)
	case method != "generateContent":
		return req, complain("models/%s does not support %q", model, method)
	case err != nil:
		return req, complain("Invalid JSON payload received. %v", err)
	}

	if err := req.wantsLogProbs(config.ResponseLogProbs, config.LogProbs); err != nil {
		return req, err
	}
	return req, asked.problem()
}

// turns returns a conversation that begins with the system's text, if there is any.
func turns(system string) []message {
	if system == "" {
		return nil
	}
	return []message{{"system", system}}
}

// strictly decodes one JSON object, and refuses unknown fields.
func strictly(body []byte, into any) error {
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if decoder.More() {
		return errors.New("the body is more than one JSON object")
	}
	return nil
}

// problem returns why the dialect refuses the request; nil: it does not.
func (r generateRequest) problem() error {
	config := r.GenerationConfig
	schemas := len(config.ResponseSchema) > 0 || len(config.ResponseJSONSchema) > 0
	if len(r.Contents) == 0 {
		return complaint("* GenerateContentRequest.contents: contents is not specified")
	}

	for _, turn := range r.Contents {
		if turn.Role != "" && turn.Role != "user" && turn.Role != "model" {
			return complaint("Please use a valid role: user, model.")
		}
	}

	for _, tool := range r.Tools {
		for name := range tool {
			switch name {
			case "googleSearch", "urlContext", "codeExecution", "functionDeclarations", "googleSearchRetrieval":
			default:
				return complain("Invalid JSON payload received. Unknown name %q at 'tools': Cannot find field.", name)
			}
		}
	}

	switch thinking := config.ThinkingConfig; {
	case thinking != nil && thinking.ThinkingBudget != nil && thinking.ThinkingLevel != "":
		return complaint("You can only set only one of thinking budget and thinking level.")
	case config.MaxOutputTokens < 0:
		return complaint("max_output_tokens must be positive.")
	case len(config.ResponseSchema) > 0 && len(config.ResponseJSONSchema) > 0:
		return complaint("Only one of response_schema and response_json_schema can be set.")
	case schemas && config.ResponseMIMEType != "application/json":
		return complaint("A response schema needs response_mime_type application/json.")
	}

	return nil
}

// head sets no headers: Google reports no limits in them.
func (generate) head(http.Header, *call) {}

// hint sets no headers: Google hints in the body.
func (generate) hint(http.Header, *call, problem) {}

func (generate) key(h http.Header) (name, key string) {
	return "X-Goog-Api-Key", h.Get("X-Goog-Api-Key")
}

// answer returns the body. It leaves out counts of 0 and empty texts, as the encoding of protocol
// buffers does.
func (generate) answer(c *call) any {
	said := map[string]any{"role": "model"}
	var parts []any
	if c.plan.thoughts != "" && c.req.shown {
		parts = append(parts, map[string]any{"text": c.plan.thoughts, "thought": true})
	}
	if c.plan.found != nil && c.req.searchShown {
		parts = append(parts,
			map[string]any{"toolCall": map[string]any{
				"toolType": "GOOGLE_SEARCH_WEB", "id": "0", "args": map[string]any{"queries": []string{c.plan.found.query}},
			}},
			map[string]any{"toolResponse": map[string]any{"toolType": "GOOGLE_SEARCH_WEB", "id": "0", "response": map[string]any{}}})
	}

	if c.plan.text != "" {
		part := map[string]any{"text": c.plan.text}
		if c.plan.reasoning > 0 {
			part["thoughtSignature"] = signature(c.plan.thoughts)
		}
		parts = append(parts, part)
	}

	if parts != nil {
		said["parts"] = parts
	}
	candidate := map[string]any{"content": said, "finishReason": "STOP", "index": 0}
	switch c.plan.finish {
	case truncated, overflowing:
		candidate["finishReason"] = "MAX_TOKENS"
	case refused:
		candidate = map[string]any{"finishReason": "PROHIBITED_CONTENT", "index": 0}
	case filtered:
		candidate = map[string]any{"finishReason": "SAFETY", "index": 0}
	}

	if c.plan.found != nil {
		candidate["groundingMetadata"] = c.plan.grounding()
	}
	if c.req.logProbs {
		candidate["logprobsResult"] = googleLogProbs(c.tokensOf(c.plan.text))
	}
	return map[string]any{
		"candidates":    []any{candidate},
		"usageMetadata": c.usageMetadata(),
		"modelVersion":  c.named(),
		"responseId":    c.id(""),
	}
}

// grounding returns the evidence of a search: the whole answer rests on everything that was found.
func (p plan) grounding() map[string]any {
	chunks, indices, confidence := []any{}, []int{}, []float64{}
	for i, s := range p.found.sources {
		chunks = append(chunks, map[string]any{"web": map[string]string{"uri": s.url, "title": s.title}})
		indices, confidence = append(indices, i), append(confidence, 0.9)
	}
	return map[string]any{
		"webSearchQueries": []string{p.found.query},
		"searchEntryPoint": map[string]string{"renderedContent": "<div>" + p.found.query + "</div>"},
		"groundingChunks":  chunks,
		"groundingSupports": []any{map[string]any{
			"segment":               map[string]any{"endIndex": len(p.text), "text": p.text},
			"groundingChunkIndices": indices,
			"confidenceScores":      confidence,
		}},
	}
}

// usageMetadata returns the token counts. It counts thoughts separately from the candidates, and
// what tools brought in separately from the prompt.
func (c *call) usageMetadata() map[string]any {
	usage := map[string]any{"totalTokenCount": c.spends.input + c.spends.output}
	for name, count := range map[string]int{
		"promptTokenCount":        c.spends.input - c.plan.found.tokens(),
		"cachedContentTokenCount": c.plan.cached,
		"toolUsePromptTokenCount": c.plan.found.tokens(),
		"candidatesTokenCount":    c.spends.output - c.plan.reasoning,
		"thoughtsTokenCount":      c.plan.reasoning,
	} {
		if count > 0 {
			usage[name] = count
		}
	}
	return usage
}
