package providers

import (
	"fmt"
	"math"
	"slices"
)

// Image is a picture within a Message.
type Image struct {
	Offset int    `json:"offset"`           // in the message's content, where it is shown
	Type   string `json:"type,omitempty"`   // MIME type of Data
	Data   string `json:"data,omitempty"`   // base64; empty: URL names the image
	URL    string `json:"url,omitempty"`    // https, fetched by the provider
	Detail string `json:"detail,omitempty"` // low, high or auto, for OpenAI's dialects; empty: not sent
	// Width and Height are pixels; 0: not known, as of a URL.
	Width  int `json:"-"`
	Height int `json:"-"`
	// Tokens is how many tokens of input to reserve for it; see Capabilities.ImageTokens.
	Tokens int64 `json:"-"`
}

// DataURI returns the address of the image for dialects that take both kinds as one: its URL, or its data in a data URI.
func (i Image) DataURI() string {
	if i.Data == "" {
		return i.URL
	}
	return "data:" + i.Type + ";base64," + i.Data
}

// HasImages reports whether any message shows an image.
func (r *Request) HasImages() bool {
	return slices.ContainsFunc(r.Messages, func(m Message) bool { return len(m.Images) > 0 })
}

// Sight says whether a model takes images.
type Sight string

// The values.
const (
	SightUnknown Sight = "" // it is not asked about images
	Sees         Sight = "yes"
	Blind        Sight = "no"
)

// ImageBounds are what an endpoint accepts as an image.
type ImageBounds struct {
	Types []string // MIME types
	Bytes int      // of the file
	Edge  int      // pixels of the longer edge; 0: no bound is known
	URLs  bool     // the provider fetches https URLs itself
}

// MaxImage is how many bytes the file of an image may have at any endpoint.
const MaxImage = 20 << 20

// The MIME types of images that are sent.
const (
	PNG  = "image/png"
	JPEG = "image/jpeg"
	GIF  = "image/gif"
	WebP = "image/webp"
)

// ImageTypes lists the MIME types of images that are sent to any endpoint.
var ImageTypes = []string{PNG, JPEG, GIF, WebP}

// Check returns why an endpoint with these bounds does not take an image, or nil. bytes is the length of its file.
func (b ImageBounds) Check(i Image, bytes int) error {
	switch {
	case i.Data == "" && !b.URLs:
		return fmt.Errorf("it takes no URLs of images, only files")
	case i.Data == "":
		return nil
	case !slices.Contains(b.Types, i.Type):
		return fmt.Errorf("it takes no %s, only %s", i.Type, listed(b.Types))
	case bytes > b.Bytes:
		return fmt.Errorf("the image has %d bytes, and it takes %d at most", bytes, b.Bytes)
	case b.Edge > 0 && max(i.Width, i.Height) > b.Edge:
		return fmt.Errorf("the image has %d×%d pixels, and it takes %d×%d at most", i.Width, i.Height, b.Edge, b.Edge)
	}
	return nil
}

func listed(types []string) (text string) {
	for n, name := range types {
		switch {
		case n > 0 && n == len(types)-1:
			text += " or "
		case n > 0:
			text += ", "
		}
		text += name
	}
	return text
}

// ImageCount is the way in which a provider counts an image's tokens.
type ImageCount string

// The ways. Numbers in their names are those of the vendor's table.
const (
	// ImagesBounded is for models whose count is not published: as many tokens as the greediest open model is known to
	// use, Qwen2.5-VL with one for 28×28 pixels and at most 16,384
	// (https://huggingface.co/Qwen/Qwen2.5-VL-7B-Instruct), and not less than the 2,880 of LLaVA-NeXT, whatever the
	// image's size (https://llava-vl.github.io/blog/2024-01-30-llava-next).
	ImagesBounded ImageCount = ""
	// OpenAI's tiles: a base, and a number for each tile of 512×512 pixels after scaling the image into 2048×2048 and
	// its shorter edge to 768 (https://developers.openai.com/api/docs/guides/images-vision#calculating-costs). Small
	// images are counted as if they were scaled up, too, which the vendor leaves open.
	ImagesTiled70   ImageCount = "tiles-70-140"
	ImagesTiled75   ImageCount = "tiles-75-150"
	ImagesTiled85   ImageCount = "tiles-85-170"
	ImagesTiled2833 ImageCount = "tiles-2833-5667"
	// OpenAI's patches of 32×32 pixels, at most 1,536, times a number (the same page).
	ImagesPatched162 ImageCount = "patches-1.62"
	ImagesPatched172 ImageCount = "patches-1.72"
	ImagesPatched246 ImageCount = "patches-2.46"
	// ImagesPatched is the bound for OpenAI's newer models: 10,000 patches, which is what gpt-5.4 keeps of an image with
	// its original detail (the same page), times 1.2.
	ImagesPatched ImageCount = "patches"
	// Anthropic: width × height / 750, after scaling the longer edge to 1,568 pixels and to 1,600 tokens; since
	// claude-opus-4-7 to 2,576 pixels and 4,784 tokens (https://platform.claude.com/docs/en/build-with-claude/vision).
	ImagesByArea     ImageCount = "area-1600"
	ImagesByFineArea ImageCount = "area-4784"
	// Google: 258 for an image of up to 384×384 pixels, and 258 for each tile of a larger one; since Gemini 3, 1,120 at
	// most unless media_resolution asks for more (https://ai.google.dev/gemini-api/docs/tokens and
	// …/media-resolution).
	ImagesTiled258 ImageCount = "tiles-258"
	ImagesFixed    ImageCount = "fixed-1120"
)

// ImageTokens returns how many tokens an image has for a model with these capabilities, or a bound on that. A width or
// height of 0 is not known: it returns the most that any image has.
func (c Capabilities) ImageTokens(width, height int) int64 {
	unknown := width <= 0 || height <= 0
	w, h := float64(width), float64(height)
	switch c.ImageCount {
	case ImagesTiled70:
		return 70 + 140*tiles512(w, h, unknown)
	case ImagesTiled75:
		return 75 + 150*tiles512(w, h, unknown)
	case ImagesTiled85:
		return 85 + 170*tiles512(w, h, unknown)
	case ImagesTiled2833:
		return 2833 + 5667*tiles512(w, h, unknown)
	case ImagesPatched162:
		return patches(width, height, 1536, 1.62, unknown)
	case ImagesPatched172:
		return patches(width, height, 1536, 1.72, unknown)
	case ImagesPatched246:
		return patches(width, height, 1536, 2.46, unknown)
	case ImagesPatched:
		return patches(width, height, 10_000, 1.2, unknown)
	case ImagesByArea:
		return area(w, h, 1568, 1600, unknown)
	case ImagesByFineArea:
		return area(w, h, 2576, 4784, unknown)
	case ImagesTiled258:
		return tiles258(width, height, unknown)
	case ImagesFixed:
		return 1120
	}

	const most, least = 16_384, 2880
	if unknown {
		return most
	}
	return min(most, max(least, ceil(width, 28)*ceil(height, 28)))
}

// ceil returns a/b, rounded up.
func ceil(a, b int) int64 { return (int64(a) + int64(b) - 1) / int64(b) }

// tiles512 counts OpenAI's tiles.
func tiles512(w, h float64, unknown bool) int64 {
	const box, short, tile, most = 2048, 768, 512, 8
	if unknown {
		return most
	}
	if longer := max(w, h); longer > box {
		w, h = w*box/longer, h*box/longer
	}
	by := short / min(w, h)
	by = min(by, box/max(w, h)) // never beyond the box
	return max(1, ceil(int(w*by+0.5), tile)*ceil(int(h*by+0.5), tile))
}

// patches counts OpenAI's patches.
func patches(width, height int, most int64, each float64, unknown bool) int64 {
	n := most
	if !unknown {
		n = min(most, ceil(width, 32)*ceil(height, 32))
	}
	return int64(float64(n)*each) + 1
}

// area counts Anthropic's tokens.
func area(w, h, edge, most float64, unknown bool) int64 {
	if unknown {
		return int64(most)
	}
	if longer := max(w, h); longer > edge {
		w, h = w*edge/longer, h*edge/longer
	}
	return int64(math.Ceil(min(most, w*h/750)))
}

// tiles258 counts Google's tiles, whose edge is two thirds of the shorter one, from 256 to 768 pixels.
func tiles258(width, height int, unknown bool) int64 {
	const each, small, most = 258, 384, 64
	switch {
	case unknown:
		return each * most
	case width <= small && height <= small:
		return each
	}
	edge := min(768, max(256, min(width, height)*2/3))
	return each * min(most, ceil(width, edge)*ceil(height, edge))
}
