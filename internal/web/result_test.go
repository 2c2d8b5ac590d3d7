package web

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/internal/view"
)

// The fleet's pages say who won and whether the judges can be relied on, at each level, as the
// record has it, and nothing of an evaluation that has no result.
func TestPagesShowTheLineOfTrust(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	_, style := s.ask(http.MethodGet, "/assets/style.css")
	const trust = "They match people on 18 %"
	for _, level := range []report.Level{report.Unknown, report.Sound, report.Caution, report.Unsound} {
		result := record.Result{At: time.Now(), Headline: "“1” is first.", Reliance: &record.Reliance{Level: string(level), Text: trust + hostile}}
		if err := s.store.Conclude(t.Context(), s.done, result); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/", "/evaluations/" + string(s.done)} {
			_, page := s.ask(http.MethodGet, path)
			line := lineOfPage(page, `class="trust" data-level="`+string(level)+`"`)
			words := strings.ToUpper(string(level[:1])) + string(level[1:]) + ". " + trust
			if !strings.Contains(line, string(wording.TiedPercents(words))+"&lt;script&gt;") || strings.Contains(line, " hidden>") {
				t.Errorf("%s: the line of trust is %q", path, line)
			}
			if !strings.Contains(page, result.Headline) {
				t.Errorf("%s does not say who won", path)
			}
		}
		if level != report.Unknown && !strings.Contains(style, `.trust[data-level="`+string(level)+`"]`) {
			t.Errorf("the level %s looks like any other", level)
		}
	}
	_, page := s.ask(http.MethodGet, "/evaluations/"+string(s.idle))
	if line := lineOfPage(page, `class="trust"`); !strings.Contains(line, " hidden>") {
		t.Errorf("the line of trust of an evaluation without a result is %q", line)
	}
}

// lineOfPage is the first line of a page with some words.
func lineOfPage(page, words string) string {
	for line := range strings.Lines(page) {
		if strings.Contains(line, words) {
			return line
		}
	}
	return ""
}

// stoppedSite is a site whose idle evaluation has ended early, because its best candidate is
// known.
func stoppedSite(t *testing.T) *site {
	t.Helper()
	at := filepath.Join(t.TempDir(), "results.db")
	s := newSite(t, func(cfg *Config) {
		cfg.Results = func(ctx context.Context, _ eval.ID) (results.Reader, error) { return results.OpenReadOnly(ctx, at) }
	})
	db, err := results.Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	asked, texts := question("waits")
	e := results.Evaluation{ID: s.idle, Plan: asked, Phases: []record.Phase{{Kind: eval.KindPairwise, Runs: 6}}, Created: time.Now()}
	known := &results.Known{Best: []string{"1" + hostile}, Candidates: 3, Confidence: 0.95, Pairs: 12}
	trust := &record.Reliance{Level: string(report.Unsound), Text: "Judges agree on 72 % of pairs (kappa 0.49, moderate). They match people on 18 % (kappa −0.14): do not rely on this ranking."}
	_, paused := s.store.Pause(t.Context(), s.idle, record.StoppedByUntil)
	err = errors.Join(db.PutEvaluation(t.Context(), e, maps.All(texts)), db.Stop(t.Context(), s.idle, results.Stop{At: time.Now(), Known: known}), db.Close(), paused,
		s.store.Conclude(t.Context(), s.idle, record.Result{At: time.Now(), Headline: "“1” is first; at 95 % confidence, no other could be.", Reliance: trust}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The page of a stopped evaluation says how to continue it.
func TestPagesSayHowToContinueAnEvaluation(t *testing.T) {
	t.Parallel()
	for want, stop := range map[string]results.Stop{
		"raise budget":     {Budget: 20, Spent: 19},
		"evalfleet resume": {Paused: map[string]record.Pause{"openai": {Message: "no key"}}},
	} {
		if got := shown(view.Evaluation{Stopped: &stop}).Shown.Stopped; !strings.Contains(got, stop.String()) || !strings.Contains(got, want) {
			t.Errorf("stopped: %s; want %q in it", got, want)
		}
	}
}

// The pages of an evaluation that the fleet has stopped say why.
func TestPagesSayWhyAnEvaluationStopped(t *testing.T) {
	t.Parallel()
	s := stoppedSite(t)
	for _, path := range []string{"/", "/evaluations/" + string(s.idle)} {
		_, page := s.ask(http.MethodGet, path)
		if line := lineOfPage(page, "after 12 pairs: 1&lt;script&gt;"); line == "" || strings.Contains(line, " hidden>") {
			t.Errorf("%s does not show why it stopped: %q", path, line)
		}
		if !strings.Contains(page, `data-status="stopped"`) {
			t.Errorf("%s does not say that it has stopped", path)
		}
	}
	_, page := s.ask(http.MethodGet, "/evaluations/"+string(s.done))
	if line := lineOfPage(page, `data-live-hide="shown.stopped"`); !strings.Contains(line, " hidden>") {
		t.Errorf("an evaluation that is done has stopped: %q", line)
	}
}
