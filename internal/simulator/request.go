package simulator

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxRequestBytes is the longest request read.
const maxRequestBytes = 32 << 20

// message is a turn of the conversation that a model is shown.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// request is what a call asks, in no dialect's words.
type request struct {
	model    string
	messages []message
	schema   string // sent beside the prompt; empty: none
	bound    int    // on the output tokens; 0: none
	search   bool   // the model may search
	reason   bool   // reasoning is requested
	shown    bool   // and its text as well
	json     bool   // JSON is requested, with or without a schema
	window   int    // tokens that input and output may have together, asked for; 0: the model's own
	pausable bool   // a search may end a turn, to be continued
	paused   int    // turns of this conversation that ended so
	// background makes the call run without its client; see job.
	background bool
	responses  *responsesRequest // as it was asked, in that dialect
	// exclusive is how the model takes search beside JSON unless its Behaviour
	// says something else.
	exclusive SearchWithJSON
	// searchShown: the answer has to show the calls of the search.
	searchShown bool
}

// receive takes the whole body, without which a server does not notice that its
// client left, and has the dialect understand it. The request is never nil.
func receive(d dialect, w http.ResponseWriter, r *http.Request) (*request, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	if err != nil {
		return &request{}, fmt.Errorf("the body cannot be read: %w", err)
	}
	return d.parse(r, body)
}

// hash is the prompt's identity: the model and everything said to it.
func (r *request) hash() uint64 {
	parts := []string{r.model}
	for _, m := range r.messages {
		parts = append(parts, m.Role, m.Content)
	}
	return hashOf(parts...)
}

// tokens is a plain estimate of four bytes each.
func tokens(bytes int) int { return (bytes + 3) / 4 }

func (r *request) inputTokens() (n int) {
	for _, m := range r.messages {
		n += tokens(len(m.Content)) + 4
	}
	return n
}

// texts is a text as dialects write it: a string, or a list of blocks;
// some have a text.
type texts string

// UnmarshalJSON takes either form. The texts of several blocks are on separate lines.
func (t *texts) UnmarshalJSON(raw []byte) error {
	var blocks []struct{ Text string }
	if json.Unmarshal(raw, &blocks) != nil {
		return json.Unmarshal(raw, (*string)(t))
	}
	said := make([]string, len(blocks))
	for i, block := range blocks {
		said[i] = block.Text
	}
	*t = texts(strings.Join(said, "\n"))
	return nil
}
