package web

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
)

// Voters see the images of a pair and no name of their files. An image is served as what it is and nothing else, under the
// hash of its content, and nothing that is no image of the evaluation is served there.
func TestImagesOnPages(t *testing.T) {
	t.Parallel()
	e, texts, entries := blinded()
	const content = "\x89PNG\r\n\x1a\n<script>alert(1)</script>"
	stored := "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte(content))
	hash := eval.TextHash(stored)
	page := "data:image/svg+xml;base64,PHN2Zy8+"
	texts[hash], texts[eval.TextHash(page)] = stored, page
	for i := range e.Plan.Documents {
		d := &e.Plan.Documents[i]
		turns := eval.EncodeTurns([]eval.Turn{{Parts: []eval.Part{{Text: "Text " + d.ID}, {Image: hash}, {Image: eval.TextHash(page)}}}})
		d.Turns, d.Hash = true, eval.TextHash(turns)
		d.Images = []eval.Image{
			{Hash: hash, Name: "by-" + d.Candidate + ".png", Type: "image/png", Width: 4, Height: 3},
			{Hash: eval.TextHash(page), Name: "x.svg", Type: "image/svg+xml"},
		}
		texts[d.Hash] = turns
	}
	e.ID = e.Plan.ID()
	p := newPollsOf(t, storeKinds["sqlite"](t), e, texts, entries, nil)
	anna := p.invited("anna")
	shown, _, _ := anna.open()
	at := "/evaluations/" + string(e.ID) + imagePath
	if strings.Count(shown, `<img src="`+at+hash+`"`) != 2 || strings.Contains(shown, "by-") || !strings.Contains(shown, "[image: image 1, 4×3]") {
		t.Errorf("the page of a pair: %s", shown)
	}

	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, anna.server.URL+at+hash, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := anna.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	for header, want := range map[string]string{
		"Content-Type": "image/png", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox",
	} {
		if got := answer.Header.Get(header); got != want {
			t.Errorf("an image has %s %q, want %q", header, got, want)
		}
	}
	for path, want := range map[string]int{
		at + hash: http.StatusOK, at + eval.TextHash(page): http.StatusNotFound, at + e.Plan.Documents[0].Hash: http.StatusNotFound,
		"/evaluations/ev-aaaaaaaaaaaa" + imagePath + hash: http.StatusForbidden,
	} {
		if code, _ := anna.get(path); code != want {
			t.Errorf("%s: got %d, want %d", path, code, want)
		}
	}
	if code, _ := p.browser().get(at + hash); code != http.StatusForbidden {
		t.Errorf("an image without the link to vote: got %d, want %d", code, http.StatusForbidden)
	}
}
