package simulator

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// thoughts is the visible part of a model's reasoning.
const thoughts = "I read each text once from its beginning to its end, count the faults that can be shown in it, and " +
	"weigh them by their kind and by its length."

// finding is the result of a search.
type finding struct {
	query   string
	sources []source
}

type source struct{ url, title, excerpt string }

// search returns invented pages, always the same for the same query.
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

// topic returns the first words of what the user said last.
func (r *request) topic() string {
	for i := len(r.messages) - 1; i >= 0; i-- {
		if words := strings.Fields(r.messages[i].Content); r.messages[i].Role == "user" && len(words) > 0 {
			return strings.Join(words[:min(len(words), 5)], " ")
		}
	}
	return "anything"
}

// tokens returns how many input tokens a search adds; 0 if it found nothing.
func (f *finding) tokens() (n int) {
	if f == nil {
		return 0
	}
	for _, s := range f.sources {
		n += tokens(len(s.title) + len(s.excerpt))
	}
	return n
}

// signature returns a seal for a text that has to be sent back unchanged.
func signature(text string) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%016x", hashOf("signature", text)))
}
