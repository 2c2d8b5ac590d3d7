package report

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/providers"
)

// Picture is an image of a document within a page.
type Picture struct {
	Name          string
	Width, Height int
	Content       template.URL // a data URI
}

// picturesBytes bounds the images in a page. Further ones have only their placeholder.
const picturesBytes = 12 << 20

// pictures reads the images of a document, while there is room for them.
func (b *builder) pictures(ctx context.Context, source Source, d eval.Document) (all []Picture, err error) {
	for _, image := range d.Images {
		if !slices.Contains(providers.ImageTypes, image.Type) || b.readings.shown+image.Bytes*4/3 > picturesBytes {
			continue
		}
		content, err := source.Text(ctx, image.Hash)
		switch {
		case errors.Is(err, results.ErrNoText):
			continue
		case err != nil:
			return nil, fmt.Errorf("image of %s: %w", d.ID, err)
		case !strings.HasPrefix(content, "data:"+image.Type+";base64,"):
			continue
		}
		b.readings.shown += len(content)
		all = append(all, Picture{image.Name, image.Width, image.Height, template.URL(content)})
	}
	return all, nil
}
