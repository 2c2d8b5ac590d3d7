package report

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"

	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/providers"
)

// hostile texts as names and reasons.
var hostile = []string{
	`<script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	`</style></title></svg><svg onload=alert(1)>`,
	`javascript:alert(1)//' onclick='alert(1)`,
	"\x1b[2J\x1b]0;owned\x07\r\n\x00",
	"right\u202eot\u2066tfel\u200f",
	`=cmd|'/c calc'!A1`,
	"{{.Report}} ${HOME} %s%n",
	"bad\xff\xfeutf8",
	strings.Repeat("long ", 2000),
	strings.Repeat("x", 10_000),
	"日本語の候補者モデル",
}

func hostileReport(t *testing.T) *Report {
	t.Helper()
	m := tournament(hostile, []string{`q<script>`, "q\u202e2"}, []string{`j"><script>`, "\x1b[31mred"}, []float64{0, 0}, 2).
		withScores(`style<img src=x>`, "\u202ecriterion").
		withFailures(3, providers.Malformed, "\x1b[2J<script>alert(2)</script>"+strings.Repeat("y", 10_000))
	m.evaluation.Plan.Name = `</title><script>alert(0)</script>`
	for i := range m.pairwise {
		m.pairwise[i].Reason = hostile[i%len(hostile)]
	}
	return built(t, m, Options{})
}

func TestHostilePage(t *testing.T) {
	t.Parallel()
	r := hostileReport(t)
	for _, c := range r.Groups[0].Ranked {
		for _, reason := range append(c.For, c.Against...) {
			if n := utf8.RuneCountInString(reason.Text); n > reasonRunes+1 {
				t.Errorf("a reason of %d runes is kept, want at most %d", n, reasonRunes+1)
			}
		}
	}
	page, script := pageOf(t, r), "<script>"+pageScript+"</script>"
	if !strings.Contains(page, script) {
		t.Fatal("the page lacks its own script")
	}
	page = strings.Replace(page, script, "", 1)
	tags := regexp.MustCompile(`<[a-zA-Z][^>]*>`).FindAllString(page, -1)
	if len(tags) < 500 {
		t.Fatalf("%d tags: the page is not what this test expects", len(tags))
	}
	element := regexp.MustCompile(`^<(html|head|meta|title|style|body|header|h1|h2|h3|div|p|b|i|ul|li|section|nav|a|main|figure|figcaption|svg|desc|line|text|g|rect|circle|table|caption|thead|tbody|tfoot|tr|th|td|details|summary|code|bdi|abbr|span|footer|br|fieldset|legend|label|input)[ />]`)
	handler := regexp.MustCompile(`(?i)[ "'/]on[a-z]+ *=`)
	quoted := regexp.MustCompile(`"[^"]*"`)
	for _, tag := range tags {
		if !element.MatchString(tag) || handler.MatchString(quoted.ReplaceAllString(tag, `""`)) {
			t.Errorf("a tag that the template does not have: %.200s", tag)
		}
	}
	if n := strings.Count(page, "</title>"); n != strings.Count(page, "<title>") {
		t.Errorf("%d ends of titles, want %d", n, strings.Count(page, "<title>"))
	}
	if n := strings.Count(page, "</style>"); n != 1 {
		t.Errorf("%d ends of styles, want 1", n)
	}
	for _, r := range strings.ReplaceAll(page, "\u00a0%", " %") {
		if r != '\n' && r != '\u200c' && r != '\u200d' && !unicode.IsPrint(r) {
			t.Fatalf("the page contains %U", r)
		}
	}
	if !utf8.ValidString(page) || strings.Contains(page, strings.Repeat("x", 2000)) {
		t.Error("the page is not UTF-8, or a name is not cut")
	}
	for _, outside := range []string{"http:", "https:", "//", "url(", "@import"} {
		if strings.Contains(strings.ReplaceAll(page, "javascript:alert(1)//", ""), outside) {
			t.Errorf("the page contains %q: it must need nothing else", outside)
		}
	}
}

func TestHostileTerminal(t *testing.T) {
	t.Parallel()
	for _, width := range []int{100, 80} {
		text := textOf(t, hostileReport(t), TextOptions{Width: width})
		for _, line := range strings.Split(text, "\n") {
			if got := runewidth.StringWidth(line); got > width {
				t.Errorf("%d columns, want at most %d: %s", got, width, line)
			}
			for _, r := range line {
				if !unicode.IsPrint(r) {
					t.Errorf("the line contains %U: %q", r, line)
				}
			}
		}
	}
}

// many returns an evaluation of n candidates, each compared with six others.
func many(n int) *memory {
	m := sourceOf(plan(names(n), []string{""}, "j"))
	documents := m.evaluation.Plan.Documents
	for i := range documents {
		for _, step := range []int{1, 7, 50} {
			other := documents[(i+step)%len(documents)].ID
			winner := documents[i].ID
			if (i+step)%3 == 0 {
				winner = other
			}
			m.verdict(0, documents[i].ID, other, winner, strings.Repeat("a reason that goes on ", 30))
		}
	}
	return m
}

// sizes returns how many candidates the pages of many candidates have: with
// -short few, because 1,000 take seconds.
func sizes() []int {
	if testing.Short() {
		return []int{101}
	}
	return []int{101, 1000}
}

// TestManyCandidates checks that the page stays small and says what it leaves out.
func TestManyCandidates(t *testing.T) {
	t.Parallel()
	for _, n := range sizes() {
		page := pageOf(t, built(t, many(n), Options{Draws: 10}))
		if len(page) > 1<<20 {
			t.Errorf("the page of %d candidates has %d bytes, want at most 1 MiB", n, len(page))
		}
		for _, want := range []string{
			"The best 20 of " + wording.Count(n), fmt.Sprintf("%d more candidates are in the table only", n-40),
			fmt.Sprintf("%d more", n-60), "lower-ranked candidates are left out", fmt.Sprintf("candidate-%04d", n-1),
		} {
			if !strings.Contains(page, want) {
				t.Errorf("the page of %d candidates does not contain %q", n, want)
			}
		}
	}
}

func FuzzVisible(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := harmless.Line(s)
		if !utf8.ValidString(got) {
			t.Fatalf("harmless.Line(%q) = %q: not UTF-8", s, got)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) && r != '\u200c' && r != '\u200d' {
				t.Fatalf("harmless.Line(%q) = %q: contains %U", s, got, r)
			}
		}
		if again := harmless.Line(got); again != got {
			t.Fatalf("harmless.Line(%q) = %q, and again %q", s, got, again)
		}
	})
}

// BenchmarkBuild reads 159,600 verdicts on 400 candidates and writes the page.
func BenchmarkBuild(b *testing.B) {
	m := tournament(names(400), []string{""}, []string{"j"}, []float64{.3}, 5)
	b.ReportAllocs()
	for b.Loop() {
		r := built(b, m, Options{})
		if r.Verdicts != 400*399 {
			b.Fatalf("%d verdicts", r.Verdicts)
		}
		_ = pageOf(b, r)
	}
}
