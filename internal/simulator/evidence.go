package simulator

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// thoughts is what a model shows of its reasoning.
const thoughts = "I read each text once from its beginning to its end, count the faults that can be shown in it, and weigh them by their kind and by its length."

// finding is what a search brought in.
type finding struct {
	query   string
	sources []source
}

type source struct{ url, title, excerpt string }

// search finds pages that are made up, the same for the same query.
func search(query string) *finding {
	f := &finding{query: query}
	for _, site := range []string{"library", "gazette"} {
		f.sources = append(f.sources, source{
			url:     fmt.Sprintf("https://%s.example/%016x", site, hashOf(site, query)),
			title:   "A page of the " + site,
			excerpt: "This page is made up, like everything that the simulator finds.",
		})
	}
	return f
}

// topic is the beginning of what the user said last.
func (r *request) topic() string {
	for i := len(r.messages) - 1; i >= 0; i-- {
		if words := strings.Fields(r.messages[i].Content); r.messages[i].Role == "user" && len(words) > 0 {
			return strings.Join(words[:min(len(words), 5)], " ")
		}
	}
	return "anything"
}

// tokens are what a search adds to the input; none where nothing was found.
func (f *finding) tokens() (n int) {
	if f == nil {
		return 0
	}
	for _, s := range f.sources {
		n += tokens(len(s.title) + len(s.excerpt))
	}
	return n
}

// signature seals a text that is to be sent back as it came.
func signature(text string) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%016x", hashOf("signature", text)))
}
