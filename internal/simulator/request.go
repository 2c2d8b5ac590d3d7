package simulator

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// maxRequestBytes is the maximum length of a request.
const maxRequestBytes = 32 << 20

// message is a turn of the conversation that a model sees.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// request is what a call asks, independent of the dialect.
type request struct {
	model    string
	tier     string // service tier; "": none is asked for
	messages []message
	schema   string // sent apart from the prompt; empty: none
	bound    int    // on the output tokens; 0: none
	search   bool   // the model may search
	reason   bool   // reasoning is requested
	shown    bool   // the answer shows the text of the reasoning
	json     bool   // JSON is requested, with or without a schema
	window   int    // requested context window, in tokens of input and output; 0: the model's own
	pausable bool   // a search may end a turn, to be continued
	paused   int    // turns of this conversation that ended with such a pause
	marks    []place
	routed   bool   // calls are spread over several caches
	cacheKey string // which cache to use, in OpenAI's dialects
	unasked  bool   // nothing but what is marked is to be cached
	// background makes the call run without its client; see job.
	background bool
	responses  *responsesRequest // the original request, in that dialect
	seen       int               // tokens of its pictures
	blurred    error             // why a picture cannot be seen; nil: all can
	logProbs   bool              // log probabilities are requested, with the top tokens at each place
	top        int
	// exclusive says how the model handles search with JSON unless its Behaviour sets that.
	exclusive SearchWithJSON
	// searchShown means that the answer must show the calls of the search.
	searchShown bool
}

// receive reads the whole body, without which a server does not notice that its client has left,
// and parses it by the dialect. The request is never nil.
func receive(d dialect, w http.ResponseWriter, r *http.Request) (*request, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	if err != nil {
		return &request{}, fmt.Errorf("the body cannot be read: %w", err)
	}
	req, err := d.parse(r, body)
	if err == nil {
		err = req.blurred
	}
	return req, err
}

// hash returns the prompt's identity, computed from the model and all messages.
func (r *request) hash() uint64 {
	parts := []string{r.model}
	for _, m := range r.messages {
		parts = append(parts, m.Role, m.Content)
	}
	return hashOf(parts...)
}

// tokens returns an estimate of the tokens in that many bytes: four bytes each.
func tokens(bytes int) int { return (bytes + 3) / 4 }

func (r *request) inputTokens() (n int) {
	for _, m := range r.messages {
		n += tokens(len(m.Content)) + 4
	}
	return n + r.seen
}

// texts returns the text of a string, or of those blocks of a list that have a text instead of a picture.
type texts struct {
	said     string
	marks    []int // where it is marked for a cache
	pictures []picture
	wrong    error // why a picture cannot be read; nil: all can
}

// UnmarshalJSON reads either form.
func (t *texts) UnmarshalJSON(raw []byte) error {
	var blocks []contentBlock
	if json.Unmarshal(raw, &blocks) != nil {
		return json.Unmarshal(raw, &t.said)
	}
	*t = contentBlocks(blocks).texts()
	return nil
}

// say appends a message. count returns the tokens of a picture.
func (r *request) say(role string, t texts, count func(picture) int) {
	r.look(t.pictures, t.wrong, count)
	for _, mark := range t.marks {
		r.marks = append(r.marks, place{len(r.messages), mark})
	}
	r.messages = append(r.messages, message{role, t.said})
}

// look counts the pictures of a message, and notes if one cannot be seen.
func (r *request) look(pictures []picture, wrong error, count func(picture) int) {
	for _, p := range pictures {
		r.seen += count(p)
	}
	if r.blurred == nil {
		r.blurred = wrong
	}
}
