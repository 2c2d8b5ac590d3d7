//go:build unix

package main

import (
	"database/sql"
	"encoding/json"
	"html"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// foreign is what a provider, a document or a file may contain: it clears the screen,
// retitles the window, colours, deletes and reverses.
const foreign = "\x1b[2J\x1b]0;owned\a\x1b[45m\u009b2J\u202eevil\x7f\u2066"

// A results folder from another person has names of everything that an evaluation file could
// not have. Reports, CSV files, file names and pages show them, and nothing foreign in them.
func TestNamesOfAReceivedFolderAreHarmless(t *testing.T) {
	t.Parallel()
	_, live, _ := simulated(t, simulator.Config{})
	documents := ""
	for _, candidate := range []string{"one", "two", "three"} {
		documents += `{"item": "EVIL-item", "candidate": "EVIL-` + candidate + `", "question": "EVIL-question", "text": "EVIL-text ` + candidate + "\"}\n"
	}
	dir := tree(t, map[string]string{
		"fleet.yaml": live, "docs.jsonl": documents,
		"votes.jsonl": `{"item": "EVIL-item", "candidate_a": "EVIL-one", "candidate_b": "EVIL-two", "winner": "1", "annotator": "EVIL-person"}`,
		"eval.yaml": "name: EVIL-name\ndocuments: {jsonl: docs.jsonl}\ngrounding: off\nreasoning: off\nvotes: votes.jsonl\n" +
			"judges: [{name: EVIL-judge, model: \"simulator:careful\"}, {name: EVIL-other, model: \"simulator:EVIL-model\"}]\nsingle: {criteria: [{name: EVIL-criterion, description: EVIL-words}]}\n" +
			"pairwise: {}\npanel: {agents: [{name: EVIL-agent, model: \"simulator:careful\"}], dimensions: [{id: EVIL-dimension, name: EVIL-called}]}\n",
	})
	run := launch(t, dir, "run", "eval.yaml", "--config", "fleet.yaml", "--out-dir", "out")
	if code := run.wait(); code != int(exitRunsFailed) { // one model is unknown
		t.Fatalf("run ended with %d", code)
	}
	renameAll(t, filepath.Join(dir, "out", outdir.ResultsFile), "EVIL", foreign+"<img src=x>")
	if err := os.Rename(filepath.Join(dir, "out"), filepath.Join(dir, "received")); err != nil {
		t.Fatal(err)
	}
	harmless := func(what, text string) {
		t.Helper()
		if !strings.Contains(text, "[2J") {
			t.Errorf("%s shows nothing of what is tested:\n%.500s", what, text)
		}
		for _, r := range text {
			if r != '\n' && r != '\t' && r != '\r' && !unicode.IsPrint(r) {
				t.Errorf("%s contains %U", what, r)
				break
			}
		}
		if strings.Contains(text, "<img") && !strings.HasSuffix(what, ".csv") && !strings.HasSuffix(what, ".md") {
			t.Errorf("%s contains a tag", what)
		}
	}
	report := launch(t, dir, "report", "received", "--details")
	if code := report.wait(); code != int(exitOK) {
		t.Fatalf("report ended with %d", code)
	}
	shown := 0
	err := filepath.WalkDir(filepath.Join(dir, "received"), func(path string, entry fs.DirEntry, err error) error {
		if strings.ContainsFunc(entry.Name(), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("a file is called %q", path)
		}
		if ext := filepath.Ext(path); ext == ".csv" || ext == ".html" || ext == ".md" {
			text := string(must(os.ReadFile(path)))
			if shown++; ext == ".html" || strings.Contains(text, "[2J") { // others have ids and numbers
				harmless(path, text)
			}
		}
		return err
	})
	if err != nil || shown < 5 {
		t.Errorf("%d files shown, %v", shown, err)
	}
	ui := launch(t, dir, "ui", "received", "--listen", "127.0.0.1:0")
	testrun.Eventually(t, "the pages are served", func() bool { return strings.Contains(ui.stdout.String(), "http://") })
	links := regexp.MustCompile(`href="(/[^"]*)"`)
	seen := []string{"/"}
	for i := 0; i < len(seen) && i < 60; i++ {
		page := get(t, ui, seen[i])
		harmless(seen[i], page)
		for _, link := range links.FindAllStringSubmatch(page, -1) {
			to := html.UnescapeString(link[1])
			if !slices.Contains(seen, to) && !strings.HasPrefix(to, "/api/") && !strings.Contains(to, "/assets/") && !strings.Contains(to, "step=") && to != "/judges" { // JSON is data, a step leads to a page that is linked, too, or to none, and without anchors no judge is shown over time
				seen = append(seen, to)
			}
		}
	}
	if len(seen) < 10 {
		t.Errorf("only these pages are linked: %q", seen)
	}
}

// renameAll replaces a text in everything that a results store contains.
func renameAll(t *testing.T, path, old, by string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	inJSON := strings.Trim(string(must(json.Marshal(by))), `"`)
	rows, err := db.QueryContext(t.Context(), `SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND c.type = 'TEXT'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var updates []string
	for rows.Next() {
		var table, column string
		if err := rows.Scan(&table, &column); err != nil {
			t.Fatal(err)
		}
		updates = append(updates, strings.NewReplacer("TABLE", table, "COLUMN", column).Replace(
			`UPDATE TABLE SET COLUMN = replace(COLUMN, ?, CASE WHEN substr(COLUMN, 1, 1) IN ('{', '[') THEN ? ELSE ? END)`))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, update := range updates {
		if _, err := db.ExecContext(t.Context(), update, old, inJSON, by); err != nil {
			t.Errorf("%s: %v", update, err)
		}
	}
}
