package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// failedFolder is a folder with an evaluation whose runs have failed.
func failedFolder(t *testing.T) (*Folder, eval.ID) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "results.db")
	db, err := results.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	asked, texts := question(hostile)
	id := asked.ID()
	phases := []record.Phase{{Kind: eval.KindPairwise, Runs: 6}}
	err = db.PutEvaluation(t.Context(), results.Evaluation{ID: id, Plan: asked, Phases: phases, Created: time.Now()}, func(yield func(string, string) bool) {
		for hash, text := range texts {
			if !yield(hash, text) {
				return
			}
		}
	})
	var entries []record.Entry
	for i := range 25 {
		entries = append(entries, record.Entry{Run: &record.Run{
			Index: i, Kind: eval.KindPairwise, State: eval.StateFailed.String(), Queue: "p", Judge: "p:m", Model: "p:m",
			Documents: []string{"0" + hostile, "1" + hostile}, Candidates: []string{"0", "1"}, Trial: 1, Class: providers.Timeout, Error: hostile,
			Started: time.Unix(int64(i), 0), Ended: time.Unix(int64(i), 0),
		}})
	}
	err = errors.Join(err, db.Append(t.Context(), id, entries), db.Close())
	if err != nil {
		t.Fatal(err)
	}
	return &Folder{
		Open:   func(ctx context.Context) (results.Reader, error) { return results.OpenReadOnly(ctx, path) },
		Status: func(results.Listed) record.Status { return "interrupted" },
	}, id
}

// A folder alone shows numbers, failures and the report; a Redis that has gone
// leaves them standing.
func TestFolder(t *testing.T) {
	t.Parallel()
	folder, id := failedFolder(t)
	open := func(ctx context.Context, _ eval.ID) (results.Reader, error) { return folder.Open(ctx) }
	server := redistest.New(t)
	client := server.Client(func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 })
	away := Config{Store: store.New(client, ""), Limits: ratelimit.NewAdmin(client, ratelimit.Config{})}
	server.Kill()
	for name, cfg := range map[string]Config{"alone": {}, "after its Redis": away} {
		cfg.Folder, cfg.Results, cfg.Log = folder, open, zerolog.Nop()
		s := &site{t: t, server: httptest.NewServer(New(cfg))}
		t.Cleanup(s.server.Close)
		for path, want := range map[string][]string{
			"/":                                      {"interrupted", "&lt;script&gt;"},
			"/evaluations/" + string(id):             {"timeout: &lt;script&gt;", ">0.24<", ">0.15<", `/report">report</a>`},
			"/evaluations/" + string(id) + "/report": {"<title>"},
			"/api/evaluations/" + string(id):         {`"failed": 25`},
		} {
			got, text := s.ask(http.MethodGet, path)
			for _, words := range want {
				if got.code != http.StatusOK || !strings.Contains(text, words) {
					t.Errorf("%s: %s answers %d without %q:\n%.3000s", name, path, got.code, words, text)
				}
			}
			if strings.Contains(text, ">0.14<") || strings.Contains(text, "<script>alert") {
				t.Errorf("%s: %s shows more failures than the last, or runs what was recorded", name, path)
			}
		}
	}
	s := &site{t: t, server: httptest.NewServer(New(away))}
	t.Cleanup(s.server.Close)
	if got, _ := s.ask(http.MethodGet, "/"); got.code != http.StatusServiceUnavailable {
		t.Errorf("without a folder, a Redis that has gone answers %d, want 503", got.code)
	}
}

// The page of a run says who won or leads so far, and whether the judges can be relied on. While runs end, it ranks again
// only after some time.
func TestFolderSaysWhoWon(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.db")
	db, err := results.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	asked, texts := question("ended")
	id := asked.ID()
	stored := results.Evaluation{ID: id, Plan: asked, Phases: []record.Phase{{Kind: eval.KindPairwise, Runs: 6}}, Created: time.Now()}
	err = db.PutEvaluation(t.Context(), stored, func(yield func(string, string) bool) {
		for hash, text := range texts {
			if !yield(hash, text) {
				return
			}
		}
	})
	var entries []record.Entry
	for i, pair := range [][2]int{{0, 1}, {1, 0}, {0, 2}, {2, 0}, {1, 2}, {2, 1}} {
		first, second := asked.Documents[pair[0]], asked.Documents[pair[1]]
		entries = append(entries, record.Entry{Run: &record.Run{
			Index: i, Kind: eval.KindPairwise, State: eval.StateSucceeded.String(), Queue: "p", Judge: "p:m", Model: "p:m",
			Documents: []string{first.ID, second.ID}, Candidates: []string{first.Candidate, second.Candidate}, Trial: 1,
			Winner: asked.Documents[min(pair[0], pair[1])].ID, Started: time.Unix(int64(i), 0), Ended: time.Unix(int64(i), 0),
		}})
	}
	if err = errors.Join(err, db.Append(t.Context(), id, entries), db.Close()); err != nil {
		t.Fatal(err)
	}
	reader, err := results.OpenReadOnly(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	built, err := report.Build(t.Context(), reader, id, report.Options{})
	if err != nil {
		t.Fatal(err)
	}
	result := built.Result()
	shows := func(s *site, said record.Result) {
		t.Helper()
		_, page := s.ask(http.MethodGet, "/evaluations/"+string(id))
		for _, words := range []string{said.Headline, said.Reliance.Line()} {
			if words := string(wording.TiedPercents(words)); !strings.Contains(page, ">"+words+"<") {
				t.Errorf("the page does not say %q:\n%.2000s", words, page)
			}
		}
	}
	for _, status := range []record.Status{record.StatusDone, record.StatusActive} {
		folder := &Folder{
			Open:   func(ctx context.Context) (results.Reader, error) { return results.OpenReadOnly(ctx, path) },
			Status: func(results.Listed) record.Status { return status },
		}
		open := func(ctx context.Context, _ eval.ID) (results.Reader, error) { return folder.Open(ctx) }
		handler := New(Config{Folder: folder, Results: open, Log: zerolog.Nop()})
		s := &site{t: t, server: httptest.NewServer(handler)}
		t.Cleanup(s.server.Close)
		shows(s, result)
		shows(s, result) // from the cache

		other := result
		other.Headline = "So far, another leads."
		handler.ranked.of[id] = rankedOnce{"an earlier state", other, time.Now().Add(time.Hour)}
		if status == record.StatusActive {
			shows(s, other)
			handler.ranked.of[id] = rankedOnce{"an earlier state", other, time.Time{}}
		}
		shows(s, result)
	}
}
