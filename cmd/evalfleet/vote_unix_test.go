//go:build unix

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// ticketInForm finds the ticket of a pair in the page on which people vote.
var ticketInForm = regexp.MustCompile(`<form id="vote"[^>]*>\s*<input type="hidden" name="vote" value="([^"]+)"`)

// person votes with a browser, as the page's script does: a vote that was not answered is sent again.
type person struct {
	t      *testing.T
	name   string
	page   string // its address
	client *http.Client
	acked  atomic.Int64
}

// invited returns a person who has opened the link and given a name.
func invited(t *testing.T, link, name string) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &person{t: t, name: name, client: &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}}
	response, err := p.client.Get(link)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	p.page = response.Request.URL.String()
	if code, err := p.post(url.Values{"say": {"name"}, "name": {name}}); err != nil || code != http.StatusOK {
		t.Fatalf("%s: %d, %v", name, code, err)
	}
	return p
}

func (p *person) post(form url.Values) (int, error) {
	response, err := p.client.PostForm(p.page, form)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode, err
}

// vote votes on every pair that the person is asked about. Each vote is sent twice.
func (p *person) vote() {
	for p.t.Context().Err() == nil {
		response, err := p.client.Get(p.page)
		if err != nil {
			continue // the server is starting again
		}
		raw, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK {
			continue
		}
		form := ticketInForm.FindSubmatch(raw)
		if form == nil {
			return
		}
		vote := url.Values{"vote": {string(form[1])}, "say": {"tie"}, "note": {"by " + p.name}}
		for answered := 0; answered < 2 && p.t.Context().Err() == nil; {
			if code, err := p.post(vote); err == nil && code == http.StatusOK {
				if answered++; answered == 1 {
					p.acked.Add(1)
				}
			}
		}
	}
}

// votesIn counts the votes in an output folder by person.
func votesIn(t *testing.T, out string) map[string]int64 {
	t.Helper()
	db, id, err := outdir.ReadStore(t.Context(), filepath.Join(out, outdir.ResultsFile), "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	counts, seen := map[string]int64{}, map[results.VoteRow]bool{}
	for row, err := range db.Votes(t.Context(), id) {
		if err != nil {
			t.Fatal(err)
		}
		counts[row.Annotator]++
		if key := (results.VoteRow{Annotator: row.Annotator, Document1: row.Document1, Document2: row.Document2}); seen[key] {
			t.Errorf("recorded twice: %+v", row)
		} else {
			seen[key] = true
		}
	}
	return counts
}

// Three people vote at once while the server is killed again and again: no vote that was answered is lost, none is
// recorded twice, and the report has what the results store has.
func TestVotesOutliveKills(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const documents, pairs = 7, 21
	dir, out := drafts(t, documents, "pairwise: {}")
	address := testrun.FreeAddress(t)
	serve := func() (*program, string) {
		p := launch(t, dir, "vote", out, "--listen", address, "--votes-per-pair", "3")
		return p, p.line()
	}
	server, link := serve()
	var people []*person
	for _, name := range []string{"anna", "bo", "cy"} {
		people = append(people, invited(t, link, name))
	}
	acked := func() (n int64) {
		for _, p := range people {
			n += p.acked.Load()
		}
		return n
	}

	var wg sync.WaitGroup
	for _, p := range people {
		wg.Go(p.vote)
	}
	for kill := range int64(3) {
		testrun.Eventually(t, "people have voted", func() bool { return acked() >= 14*(kill+1) })
		server.signal(syscall.SIGKILL)
		server.wait()
		before := map[string]int64{}
		for _, p := range people {
			before[p.name] = p.acked.Load()
		}
		for name, n := range votesIn(t, out) {
			if n < before[name] {
				t.Errorf("after kill %d, %d votes of %s are recorded, and %d were answered", kill+1, n, name, before[name])
			}
		}
		var again string
		if server, again = serve(); again != link {
			t.Errorf("after a new start the link is %q, before %q", again, link)
		}
	}
	wg.Wait()

	recorded := votesIn(t, out)
	for _, p := range people {
		if recorded[p.name] != pairs || p.acked.Load() != pairs {
			t.Errorf("%s: %d votes were answered, %d are recorded; want %d", p.name, p.acked.Load(), recorded[p.name], pairs)
		}
	}
	if code, _, stderr := evalfleet(t, nil, "report", out, "--format", "json,csv"); code != 0 {
		t.Fatalf("report ended with %d: %s", code, stderr)
	}
	raw, err := os.ReadFile(filepath.Join(out, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		People struct {
			Votes, Pairs, Sample int
			Annotators           []struct{ Name string }
			Agreement            *struct{ Units int }
		}
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	if p := r.People; p.Votes != 3*pairs || p.Pairs != pairs || p.Sample != 3*pairs || len(p.Annotators) != 3 || p.Agreement == nil {
		t.Errorf("the report has %+v", p)
	}

	// The exported file is one that evaluations read, and counts no vote again.
	exported, err := os.ReadFile(filepath.Join(out, "votes.csv"))
	if err != nil || strings.Count(string(exported), "\n") != 3*pairs+1 {
		t.Errorf("votes.csv: %d lines, %v", strings.Count(string(exported), "\n"), err)
	}
	if err := os.WriteFile(filepath.Join(dir, "people.csv"), exported, 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "drafts.yaml")
	asked, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(asked, "votes: people.csv\n"...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := evalfleet(t, nil, "run", file, "--out-dir", out); code != 0 {
		t.Fatalf("run with the exported votes ended with %d: %s", code, stderr)
	}
	for name, n := range votesIn(t, out) {
		if n != pairs {
			t.Errorf("with the exported votes %s has %d, want %d", name, n, pairs)
		}
	}
}
