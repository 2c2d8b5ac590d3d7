package main

import (
	"bytes"
	"image"
	"image/png"
	"path/filepath"
	"strings"
	"testing"
)

// pngFile returns a PNG of a size.
func pngFile(t testing.TB, width, height int) string {
	t.Helper()
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return file.String()
}

// TestImagesFromFileToReport: images are compared and scored as texts are. The judge, which prefers the larger image, gets
// both. The same command resumes without the files' images being sent again, and tables have placeholders.
func TestImagesFromFileToReport(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"eval.yaml": `documents: [pictures/*]
judges: ["simulator:careful"]
single: {criteria: [sharpness]}
pairwise: {}
`,
		"pictures/small.png": pngFile(t, 64, 48), "pictures/large.png": pngFile(t, 640, 480), "pictures/huge.png": pngFile(t, 1600, 1200),
	})
	file, out := filepath.Join(dir, "eval.yaml"), filepath.Join(dir, "out")
	if code, valid, stderr := evalfleet(t, nil, "validate", file); code != int(exitOK) {
		t.Fatalf("validate: code %d\n%s%s", code, valid, stderr)
	}
	read := runTwice(t, file, out)
	if calls := strings.Count(read("calls.csv"), "\n") - 1; calls != 9 {
		t.Errorf("%d calls, want 9", calls)
	}
	verdicts := read("verdicts.csv")
	if wins := strings.Count(verdicts, "1920000 pixels, against"); wins != 4 {
		t.Errorf("the largest image wins %d verdicts for its pixels, want 4:\n%s", wins, verdicts)
	}
	if page := read("report.html"); strings.Contains(page, "src=\"http") || strings.Contains(page, "http-equiv=\"refresh") {
		t.Error("the report fetches something")
	}
}
