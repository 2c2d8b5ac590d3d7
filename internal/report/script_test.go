package report

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"regexp"
	"strings"
	"testing"
)

// TestPagePolicy: the page's policy names its only script by the hash of its text as it is written, and permits nothing
// else.
func TestPagePolicy(t *testing.T) {
	t.Parallel()
	r := built(t, typical(), Options{Draws: 20})
	for name, page := range map[string]string{"report": pageOf(t, r), "comparison": comparisonPage(t, r, r)} {
		scripts := regexp.MustCompile(`(?s)<script[^>]*>(.*?)</script>`).FindAllStringSubmatch(page, -1)
		if len(scripts) != 1 {
			t.Fatalf("%s: %d scripts, want 1", name, len(scripts))
		}
		sum := sha256.Sum256([]byte(scripts[0][1]))
		want := "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		policy := regexp.MustCompile(`<meta http-equiv="Content-Security-Policy" content="([^"]*)">`).FindStringSubmatch(page)
		if policy == nil || html.UnescapeString(policy[1]) != want {
			t.Errorf("%s: the policy is %q, want %s", name, policy, want)
		}
	}
}

// TestPageWithoutScript: no table needs the script. Each row is in the page as it is written, and only a click on
// “more” separates a reader from the last.
func TestPageWithoutScript(t *testing.T) {
	t.Parallel()
	page := pageOf(t, built(t, many(300), Options{Draws: 20}))
	for _, part := range []string{" hidden>", "<button", `type="search"`} {
		if strings.Contains(strings.Replace(page, pageScript, "", 1), part) {
			t.Errorf("the page contains %q without its script", part)
		}
	}
	main, folded, _ := strings.Cut(page, "<details data-rest>")
	folded, _, _ = strings.Cut(folded, "</details>")
	_, main, _ = strings.Cut(main, `<h2 id="ranking">`)
	if shown, rest := strings.Count(main, "<tr><td>"), strings.Count(folded, "<tr><td>"); shown != openRows || rest != 300-openRows {
		t.Errorf("%d rows and %d folded, want %d and %d", shown, rest, openRows, 300-openRows)
	}
}
