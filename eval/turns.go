package eval

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Turn is a message of a document that is more than a text: an image, or a conversation. The text of such a document is a
// list of them, in the form that EncodeTurns returns.
type Turn struct {
	Role  string `json:"role,omitempty"` // empty: the document is no conversation
	Parts []Part `json:"parts"`
}

// Part is a text, or an image of the document.
type Part struct {
	Text  string `json:"text,omitempty"`
	Image string `json:"image,omitempty"` // Image.Hash; empty: a text
}

// Image is an image that a document shows. Its content is stored like a text, under its hash: a data URI, or the https
// URL that its provider fetches.
type Image struct {
	Hash   string `json:"hash"`            // TextHash of that
	Name   string `json:"name"`            // of the file, without folders, or its URL
	Type   string `json:"type,omitempty"`  // MIME type; empty: an image at a URL, whose type is not known
	Width  int    `json:"width,omitempty"` // pixels
	Height int    `json:"height,omitempty"`
	Bytes  int    `json:"bytes,omitempty"` // of the file
}

// String returns the placeholder of the image in texts: "[image: cat.png, 640×480]".
func (i Image) String() string {
	if i.Type == "" {
		return "[image: " + i.Name + "]"
	}
	return fmt.Sprintf("[image: %s, %d×%d]", i.Name, i.Width, i.Height)
}

// EncodeTurns returns the text of a document of turns.
func EncodeTurns(turns []Turn) string {
	raw, err := json.Marshal(turns)
	if err != nil {
		panic(fmt.Sprintf("eval: encode turns: %v", err)) // cannot fail: they hold only texts
	}
	return string(raw)
}

// DecodeTurns returns the turns of a document from its text. A plain text is one turn.
func (d Document) DecodeTurns(text string) ([]Turn, error) {
	if !d.Turns {
		return []Turn{{Parts: []Part{{Text: text}}}}, nil
	}
	var turns []Turn
	if err := json.Unmarshal([]byte(text), &turns); err != nil {
		return nil, fmt.Errorf("the text of document %q is no list of turns: %w", d.ID, err)
	}
	return turns, nil
}

// Image returns the document's image with a hash; false: it has none.
func (d Document) Image(hash string) (Image, bool) {
	for _, image := range d.Images {
		if image.Hash == hash {
			return image, true
		}
	}
	return Image{}, false
}

// Hashes returns the hashes of all that is stored for the document: of its text, unless that is not known, and of its
// images.
func (d Document) Hashes() []string {
	hashes := make([]string, 0, 1+len(d.Images))
	if d.Hash != "" {
		hashes = append(hashes, d.Hash)
	}
	for _, image := range d.Images {
		hashes = append(hashes, image.Hash)
	}
	return hashes
}

// Readable returns the text of a document for people: itself, or its turns with a placeholder for each image.
func (d Document) Readable(text string) string {
	turns, err := d.DecodeTurns(text)
	if err != nil || !d.Turns {
		return text
	}
	shown := make([]string, len(turns))
	for i, turn := range turns {
		var parts []string
		for _, part := range turn.Parts {
			if image, is := d.Image(part.Image); is {
				part.Text = image.String()
			}
			parts = append(parts, part.Text)
		}
		if shown[i] = strings.Join(parts, "\n"); turn.Role != "" {
			shown[i] = turn.Role + ": " + shown[i]
		}
	}
	return strings.Join(shown, "\n\n")
}

// Unnamed returns the document with numbers instead of the names of its images, which may tell its author.
func (d Document) Unnamed() Document {
	d.Images = slices.Clone(d.Images)
	for i := range d.Images {
		d.Images[i].Name = fmt.Sprintf("image %d", i+1)
	}
	return d
}

// HasImages reports whether any text that the runs show has an image.
func (e *Evaluation) HasImages() bool {
	for _, d := range e.Everything() {
		if len(d.Images) > 0 {
			return true
		}
	}
	return false
}
