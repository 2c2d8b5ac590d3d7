package providers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The numbers of tokens are those of the vendors' own examples, where they give any.
func TestTokensOfImages(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		count         ImageCount
		width, height int
		want          int64
	}{
		{ImagesTiled85, 1024, 1024, 765},       // OpenAI's first example
		{ImagesTiled85, 2048, 4096, 1105},      // its second
		{ImagesTiled85, 64, 64, 765},           // counted as if it were scaled up
		{ImagesTiled85, 8000, 100, 85 + 170*4}, // one row of tiles
		{ImagesTiled85, 0, 0, 85 + 170*8},
		{ImagesTiled2833, 1024, 1024, 2833 + 4*5667},
		{ImagesTiled70, 1024, 1024, 630},
		{ImagesTiled75, 1024, 1024, 675},
		{ImagesPatched162, 1024, 1024, 1659}, // 1,024 patches
		{ImagesPatched162, 8000, 8000, 2489}, // no more than 1,536
		{ImagesPatched246, 32, 33, 5},
		{ImagesPatched, 100_000, 100_000, 12_001},
		{ImagesByArea, 1000, 1000, 1334}, // Anthropic's example
		{ImagesByArea, 8000, 8000, 1600},
		{ImagesByArea, 0, 100, 1600},
		{ImagesByFineArea, 2000, 1500, 4000},
		{ImagesByFineArea, 8000, 8000, 4784},
		{ImagesTiled258, 384, 384, 258},
		{ImagesTiled258, 960, 540, 6 * 258}, // Google's example
		{ImagesFixed, 8000, 8000, 1120},
		{ImagesBounded, 10, 10, 2880},
		{ImagesBounded, 2800, 2800, 10_000},
		{ImagesBounded, 8000, 8000, 16_384},
		{ImagesBounded, 0, 0, 16_384},
	} {
		if got := (Capabilities{ImageCount: test.count}).ImageTokens(test.width, test.height); got != test.want {
			t.Errorf("%q, %d×%d: got %d tokens, want %d", test.count, test.width, test.height, got, test.want)
		}
	}
}

func TestPartsOfAMessage(t *testing.T) {
	t.Parallel()
	one, two := Image{Offset: 2, Data: "1"}, Image{Offset: 4, Data: "2"}
	first := Image{Data: "0"}
	for name, test := range map[string]struct {
		content string
		images  []Image
		keep    []int
		want    []Part
	}{
		"nothing":                     {"", nil, nil, []Part{{}}},
		"a text":                      {"abcd", nil, nil, []Part{{Text: "abcd"}}},
		"only an image":               {"", []Image{first}, nil, []Part{{Image: &first}}},
		"images":                      {"abcd", []Image{first, one, two}, nil, []Part{{Image: &first}, {Text: "ab"}, {Image: &one}, {Text: "cd"}, {Image: &two}}},
		"two images at one place":     {"abcd", []Image{one, one}, nil, []Part{{Text: "ab"}, {Image: &one}, {Image: &one}, {Text: "cd"}}},
		"a beginning":                 {"abcd", nil, []int{1}, []Part{{Text: "a", Keep: true}, {Text: "bcd"}}},
		"a beginning before an image": {"abcd", []Image{one}, []int{1}, []Part{{Text: "a", Keep: true}, {Text: "b"}, {Image: &one}, {Text: "cd"}}},
		"a beginning with an image":   {"abcd", []Image{one}, []int{2}, []Part{{Text: "ab"}, {Image: &one, Keep: true}, {Text: "cd"}}},
		"a beginning after an image":  {"abcd", []Image{one}, []int{3}, []Part{{Text: "ab"}, {Image: &one}, {Text: "c", Keep: true}, {Text: "d"}}},
	} {
		r := Request{Messages: []Message{{Content: test.content, Images: test.images}}}
		for _, offset := range test.keep {
			r.Prefixes = append(r.Prefixes, Prefix{Offset: offset, Keep: true})
		}
		if diff := cmp.Diff(test.want, r.Parts(0)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhichImagesAnEndpointTakes(t *testing.T) {
	t.Parallel()
	bounds := ImageBounds{Types: []string{PNG, JPEG}, Bytes: 1000, Edge: 100}
	for want, image := range map[string]Image{
		"":                                       {Type: PNG, Data: "x", Width: 100, Height: 100},
		"it takes no URLs of images, only files": {URL: "https://h/i.png"},
		"it takes no image/gif, only image/png or image/jpeg":      {Type: GIF, Data: "x"},
		"the image has 101×5 pixels, and it takes 100×100 at most": {Type: PNG, Data: "x", Width: 101, Height: 5},
		"the image has 1001 bytes, and it takes 1000 at most":      {Type: PNG, Data: "x", Offset: 1},
	} {
		got := ""
		if err := bounds.Check(image, 1000+image.Offset); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%+v: got %q, want %q", image, got, want)
		}
	}
}
