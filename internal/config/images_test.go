package config

import (
	"bytes"
	"image"
	"image/png"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers/catalog"
)

// pngOf returns a PNG of a size.
func pngOf(t testing.TB, width, height int) string {
	t.Helper()
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return file.String()
}

const pictures = "documents: [docs/*]\njudges: [simulator:careful]\npairwise: {}\n"

// An image is recognised by its content, stored once, and part of the evaluation's identity.
func TestImagesAreDocuments(t *testing.T) {
	t.Parallel()
	small, large := pngOf(t, 4, 3), pngOf(t, 40, 30)
	files := map[string]string{"docs/a.png": small, "docs/b.md": large, "docs/c.jpg": small, "docs/d.md": "A text.", "eval.yaml": pictures}
	s := load(t, files, Options{})
	documents := s.Evaluation.Documents
	if len(documents) != 4 || len(s.Texts) != 5 {
		t.Fatalf("got %d documents and %d texts, want 4 and 5: two images, their two documents and a text", len(documents), len(s.Texts))
	}
	a, c := documents[0], documents[2]
	want := eval.Image{Hash: a.Images[0].Hash, Name: "a.png", Type: "image/png", Width: 4, Height: 3, Bytes: len(small)}
	if !a.Turns || a.Images[0] != want || c.Images[0].Hash != want.Hash || c.Hash != a.Hash || documents[1].Images[0].Width != 40 {
		t.Errorf("got %+v", documents)
	}
	if got := a.Readable(s.Texts[a.Hash]); got != "[image: a.png, 4×3]" {
		t.Errorf("got the placeholder %q", got)
	}
	if !s.Evaluation.HasImages() || documents[3].Turns || load(t, with(two, "eval.yaml", minimal), Options{}).Evaluation.HasImages() {
		t.Error("an evaluation of texts has images, or one of images has none")
	}
	if other := load(t, with(files, "docs/a.png", pngOf(t, 4, 4)), Options{}); other.Evaluation.ID() == s.Evaluation.ID() {
		t.Error("another image has the same id")
	}
}

func TestImagesThatAreRefused(t *testing.T) {
	t.Parallel()
	fleet := func(models string) Options {
		f, err := LoadFleet("")
		if err != nil {
			t.Fatal(err)
		}
		e := catalog.Entry{Name: "local", Dialect: catalog.Chat, BaseURL: "http://h/v1"}
		if models != "" {
			takes := models == "true"
			e.Models = []catalog.Rule{{Facts: catalog.Facts{Images: &takes}}}
		}
		f.Providers["local"] = e
		return Options{Fleet: f}
	}
	ok := pngOf(t, 4, 3)
	judged := func(by string) string { return strings.Replace(pictures, "simulator:careful", "\""+by+"\"", 1) }
	for name, test := range map[string]struct {
		file, eval string
		options    Options
		want       string // empty: nothing is refused
	}{
		"a model that sees":           {ok, judged("openai:gpt-4o"), Options{}, ""},
		"a model that does not":       {ok, judged("openai:gpt-3.5-turbo"), Options{}, "eval.yaml:2:10: judges[0]: openai:gpt-3.5-turbo takes no images, and documents show some"},
		"an unknown model":            {ok, judged("local:m"), fleet(""), "it is not known whether local:m takes images, and documents show some; set images: true for it under providers.local.models if it does"},
		"one that is said to see":     {ok, judged("local:m"), fleet("true"), ""},
		"one that is said not to":     {ok, judged("local:m"), fleet("false"), "local:m takes no images"},
		"a fallback that does not":    {ok, judged("openai:gpt-4o") + "fallback: {models: [\"openai:o3-mini\"]}\n", Options{}, "openai:o3-mini takes no images"},
		"an agent that does not":      {ok, pictures + "panel: {agents: [{model: \"openai:o3-mini\"}], dimensions: [{id: d}], scale: [1, 5]}\n", Options{}, "openai:o3-mini takes no images"},
		"GIF where it is not taken":   {"GIF89a\x01\x00\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x01\x00\x00;", judged("google:gemini-2.5-pro"), Options{}, "docs/b.png: google:gemini-2.5-pro cannot be asked: it takes no image/gif, only image/png, image/jpeg or image/webp"},
		"more pixels than it takes":   {pngOf(t, 8001, 1), judged("anthropic:claude-sonnet-4-5"), Options{}, "docs/b.png: anthropic:claude-sonnet-4-5 cannot be asked: the image has 8001×1 pixels, and it takes 8000×8000 at most"},
		"a truncated image":           {ok[:len(ok)-8], pictures, Options{}, "docs/b.png: the image is incomplete: its end is missing"},
		"an image that is a ZIP, too": {ok + "PK\x03\x04", pictures, Options{}, "docs/b.png: the file has 4 bytes after the image"},
		"25 MB":                       {ok + strings.Repeat("x", 25<<20), pictures, Options{}, "docs/b.png: the image of 26214476 bytes is too large: at most 20971520 bytes are read; scale it down"},
		"another kind of image":       {"BM\x8a\x7b\x0c\x00\x00\x00\xff\xff", pictures, Options{}, "docs/b.png: not a text: image/bmp"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"docs/a.md": "A text.", "docs/c.md": "Another.", "docs/b.png": test.file, "eval.yaml": test.eval}
			if test.want == "" {
				load(t, files, test.options)
				return
			}
			problems, got := problemsOf(t, files, test.options)
			if !strings.Contains(got, test.want) || name != "an agent that does not" && len(problems) != 1 {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}
