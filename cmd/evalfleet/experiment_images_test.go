package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/simulator"
)

// jpegFile returns a JPEG of a size.
func jpegFile(t testing.TB, width, height int) string {
	t.Helper()
	var file bytes.Buffer
	if err := jpeg.Encode(&file, image.NewGray(image.Rect(0, 0, width, height)), nil); err != nil {
		t.Fatal(err)
	}
	return file.String()
}

// vendors serves the simulator in the dialect of every api of prompto's examples, and returns the --config that says so.
func vendors(t *testing.T) string {
	t.Helper()
	models := map[string]simulator.Model{}
	for _, name := range []string{"gpt-4o", "reginald-gpt-4o", "claude-3-5-sonnet-20241022", "gemini-1.5-flash", "llava"} {
		models[name] = simulator.Model{}
	}
	server, err := simulator.Listen("127.0.0.1:0", simulator.Config{Models: models})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return `providers:
  openai: {base_url: "` + server.URL + `/v1"}
  azure-openai: {base_url: "` + server.URL + `/v1", models: {reginald-gpt-4o: {images: true}}}
  anthropic: {base_url: "` + server.URL + `"}
  gemini: {base_url: "` + server.URL + `"}
  vertexai: {dialect: generate, base_url: "` + server.URL + `"}
  ollama: {base_url: "` + server.URL + `"}
  quart: {dialect: chat, base_url: "` + server.URL + `/v1"}
`
}

// TestExperimentsWithImages: the multimodal lines of prompto's own examples are asked, in the dialect of each api, with
// images from data/media. Video and audio fail alone, and so does a line whose file is missing.
func TestExperimentsWithImages(t *testing.T) {
	t.Parallel()
	data := base64.StdEncoding.EncodeToString([]byte(jpegFile(t, 40, 30)))
	const openai = `"prompt": [{"role": "user", "content": `
	dir := tree(t, map[string]string{
		"fleet.yaml": vendors(t), "data/media/race.jpg": jpegFile(t, 640, 480),
		"data/input/pictures.jsonl": `{"id": 0, "api": "openai", "model_name": "gpt-4o", ` + openai + `["what is this?", {"type": "image_url", "image_url": "race.jpg"}]}]}
{"id": 1, "api": "openai", "model_name": "gpt-4o", ` + openai + `[{"type": "text", "text": "What is in it?"}, {"type": "image_url", "image_url": {"url": "https://h/i.png", "detail": "low"}}]}]}
{"id": 2, "api": "openai", "model_name": "gpt-4o", ` + openai + `[{"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,` + data + `"}}, "what?"]}]}
{"id": 3, "api": "anthropic", "model_name": "claude-3-5-sonnet-20241022", ` + openai + `["what?", {"type": "image", "source": {"media": "race.jpg", "media_type": "image/jpeg"}}]}, {"role": "assistant", "content": "Cyclists."}, {"role": "user", "content": "Who?"}], "parameters": {"max_tokens": 100}}
{"id": 4, "api": "gemini", "model_name": "gemini-1.5-flash", "prompt": [{"role": "user", "parts": [{"type": "image", "media": "race.jpg"}, "what is this?"]}]}
{"id": 5, "api": "azure-openai", "model_name": "reginald-gpt-4o", ` + openai + `["what?", {"type": "image_url", "image_url": "race.jpg"}]}]}
{"id": 6, "api": "ollama", "model_name": "llava", ` + openai + `["what?", {"type": "image_url", "image_url": "race.jpg"}]}]}
{"id": 7, "api": "gemini", "model_name": "gemini-1.5-flash", "prompt": [{"role": "user", "parts": ["what?", {"type": "video", "media": "race.mp4"}]}]}
{"id": 8, "api": "openai", "model_name": "gpt-4o", ` + openai + `[{"type": "image_url", "image_url": "lost.jpg"}]}]}
{"id": 9, "api": "openai", "model_name": "gpt-3.5-turbo", ` + openai + `[{"type": "image_url", "image_url": "race.jpg"}]}]}
{"id": 10, "api": "openai", "model_name": "gpt-4o", ` + openai + `[{"type": "image_url", "image_url": "../../fleet.yaml"}]}]}
{"id": 11, "api": "openai", "model_name": "gpt-4o", ` + openai + `[{"type": "image_url", "image_url": {"url": "data:image/png;base64,` + data + `"}}]}]}
{"id": 12, "api": "gemini", "model_name": "gemini-1.5-flash", "prompt": [{"role": "user", "parts": [{"type": "image", "media": "https://h/i.png"}]}]}
`,
	})
	keys := map[string]string{"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k", "AZURE_OPENAI_API_KEY": "k"}
	_, _, stderr := evalfleet(t, keys, "run", "--file", filepath.Join(dir, "data/input/pictures.jsonl"), "--config", filepath.Join(dir, "fleet.yaml"),
		"--data-folder", filepath.Join(dir, "data"), "--out-dir", filepath.Join(dir, "out"), "--max-queries", "60000")
	completed, err := filepath.Glob(filepath.Join(dir, "data/output/pictures/*completed*"))
	if err != nil || len(completed) != 1 {
		t.Fatalf("got %v, %v\n%s", completed, err, stderr)
	}
	raw, err := os.ReadFile(completed[0])
	if err != nil {
		t.Fatal(err)
	}
	got := map[int]string{}
	for line := range strings.Lines(string(raw)) {
		var row struct {
			ID       int    `json:"id"`
			Response string `json:"response"`
			Prompt   any    `json:"prompt"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		got[row.ID] = row.Response
	}

	const race = "a picture of 640×480 pixels (jpeg)"
	for id, want := range map[int]string{
		0: race, 1: "a picture of 1024×1024 pixels (url)", 2: "a picture of 40×30 pixels (jpeg)", 3: race, 4: race, 5: race, 6: race,
		7: "has the type \"video\", which is not supported here",
	} {
		if !strings.Contains(got[id], want) {
			t.Errorf("line %d: got %q, want %q", id, got[id], want)
		}
	}
	if len(got) != 8 {
		t.Errorf("%d lines are answered, want 8", len(got))
	}
	for _, want := range []string{
		"no image lost.jpg; put it beside the experiment, or into the folder media", "openai:gpt-3.5-turbo takes no images",
		"is outside the folder", "is said to be image/png, and is image/jpeg", "it takes no URLs of images, only files", "5 of 13 lines are skipped",
	} {
		if !strings.Contains(strings.Join(strings.Fields(stderr), " "), want) {
			t.Errorf("the warnings have no %q:\n%s", want, stderr)
		}
	}
}
