package web

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
)

// Picture is an image of a document, as a page shows it.
type Picture struct {
	Address string `json:"address"` // on this server; empty: only its provider fetches it
	Name    string `json:"name"`
	Width   int    `json:"width,omitempty"`
	Height  int    `json:"height,omitempty"`
}

// imagePath is between the address of an evaluation and the hash of one of its images.
const imagePath = "/images/"

// picturesOf returns the images of a document. What is only known by a URL is not shown: no page fetches anything.
func picturesOf(id eval.ID, d eval.Document) (all []Picture) {
	for _, image := range d.Images {
		p := Picture{Name: image.Name, Width: image.Width, Height: image.Height}
		if image.Type != "" {
			p.Address = "/evaluations/" + string(id) + imagePath + image.Hash
		}
		all = append(all, p)
	}
	return all
}

// image answers with an image that a document of an evaluation shows. It is one of few types, and what a browser takes it
// for is only that type.
func (s *Server) image(w http.ResponseWriter, r *http.Request) {
	reader, e, err := s.asked(r.Context(), eval.ID(r.PathValue("id")))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer reader.Close()
	hash := r.PathValue("hash")
	var image eval.Image
	for _, d := range e.Plan.Documents {
		if of, has := d.Image(hash); has {
			image = of
			break
		}
	}
	if !slices.Contains(providers.ImageTypes, image.Type) {
		s.fail(w, r, fmt.Errorf("%w: the evaluation has no such image", errNotFound))
		return
	}

	content, err := reader.Text(r.Context(), hash)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	_, encoded, _ := strings.Cut(content, ",")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		s.fail(w, r, fmt.Errorf("decode image %s: %w", hash, err))
		return
	}
	header := w.Header()
	header.Set("Content-Type", image.Type)
	header.Set("Content-Length", strconv.Itoa(len(raw)))
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	header.Set("Cache-Control", "private, max-age=86400, immutable") // its address is the hash of its content
	_, _ = w.Write(raw)                                              // an error means that the client left
}
