//go:build look

package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/looktest"
)

// TestLookAnswers has Chromium show the page of answers from a file, and use it: nothing but tables scrolls sideways,
// axe-core finds nothing serious, and texts become text, whatever they are.
func TestLookAnswers(t *testing.T) {
	dir, b := looktest.Folder(t), looktest.NewBrowser(t)
	m := whole([]string{"llama-7b", "mistral-7b-instruct", "pythia-6.9b"}, []string{"q1", "q2", "q3", "q4"})
	m.texts = map[string]string{}
	for k, d := range m.evaluation.Plan.Documents {
		m.texts[d.Hash] = fmt.Sprintf("# Title\n\nAnswer %d is **bold**, `code` and [a link](javascript:alert(1)).\n\n- one\n- two <img src=x onerror=alert(1)>\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\n<b>code</b>\n```\n", k)
	}
	long := func(word string) string { // two texts of 100 kB that differ everywhere, and where nearly nothing is unique
		var out strings.Builder
		for k := 0; out.Len() < answerRunes-20; k++ {
			fmt.Fprintf(&out, "%s%d the the ", word, k%97)
		}
		return out.String()
	}
	documents := m.evaluation.Plan.Documents
	m.texts[documents[3].Hash], m.texts[documents[4].Hash] = long("a"), long("b")
	m.texts[documents[5].Hash] = strings.Replace(long("a"), "a7 the", "zz the", 40)
	m.texts[documents[6].Hash] = strings.Repeat("*_`[|>", 180_000)

	show := func(name string, of *memory, hash string) {
		t.Helper()
		file := filepath.Join(dir, name+".html")
		if err := os.WriteFile(file, []byte(answersOf(t, of)), 0o644); err != nil {
			t.Fatal(err)
		}
		for k, width := range []int{400, 400, 1400, 1400} { // each has its own address: the same one with a hash does not load again
			b.Open(fmt.Sprintf("file://%s?%d%s", file, k, hash), width, k%2 == 0)
			b.Shoot(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, []string{"dark", "light"}[k%2])))
			b.Judge()
			b.Quiet("")
		}
	}
	said := func(script, want string) {
		t.Helper()
		var got string
		b.Run(script, &got)
		if got != want {
			t.Errorf("%s: got %q, want %q", script, got, want)
		}
	}
	press := func(key string) string {
		return fmt.Sprintf(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: %q, bubbles: true})); `, key)
	}
	const opened = `[...document.querySelectorAll("article.open")].map(a => a.id).join()`
	const button = `[...document.querySelectorAll("article.open .bar button")].find(b => b.textContent === `
	settled := func(script string) string {
		return `new Promise(r => setTimeout(r, 0)).then(() => new Promise(r => setTimeout(r, 0))).then(() => ` + script + `)`
	}

	show("answers-hostile", hostileAnswers(), "#item-1")
	said(`String(document.querySelectorAll("script, img, iframe, b").length)`, "1")
	show("answers-gates", checked(), "#item-2")
	show("answers", m, "#item-1-2")
	said(opened, "item-1")
	answer := `document.querySelector("#item-1-1 .prose")`
	said(answer+`.querySelector("strong, .x").textContent + `+answer+`.querySelector("code").textContent + `+answer+`.querySelectorAll("li").length + `+answer+`.querySelectorAll("td").length`, "boldcode22")
	said(`String(document.querySelectorAll(".prose a, .prose img, .prose b").length)`, "0")
	said(button+`"Raw text").click(), String(`+answer+`.textContent.startsWith("# Title\n\nAnswer 0 is **bold**"))`, "true")
	said(button+`"Raw text").click(), String(`+answer+`.textContent.includes("**"))`, "false")

	// Answers 0 and 1 differ in their number alone.
	said(button+`"Differences").click(), [...document.querySelectorAll("article.open del, article.open ins")].map(e => e.tagName + e.textContent).join()`, "DEL0,INS1")
	said(press("ArrowRight")+settled(opened), "item-2")
	said(press("ArrowLeft")+settled(opened), "item-1")
	said(press("Escape")+settled(opened+` + document.activeElement.getAttribute("href")`), "#item-1")

	// However long and different two texts are, every word of them is there, and the difference of few words is small.
	said(`location.hash = "#item-2-1", `+settled(`[...document.querySelectorAll("article.open .compared .prose")].map(p => p.textContent.length).join()`),
		fmt.Sprintf("%d,%d", len(m.texts[documents[3].Hash]), len(m.texts[documents[4].Hash])))
	said(`(s => { s.value = "item-2-3"; s.dispatchEvent(new Event("change")); })(document.querySelectorAll("article.open select")[1]), `+
		`[...new Set([...document.querySelectorAll("article.open ins")].map(e => e.textContent))].join() + document.querySelectorAll("article.open ins").length`, "zz40")
	said(`location.hash = "#item-3-1", `+settled(`String(document.querySelector("#item-3-1 .prose").textContent.length > 90000)`), "true")
	b.Quiet("")
}
