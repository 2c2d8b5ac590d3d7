package web

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
)

// unseen are names that voters must not see.
var unseen = []string{"alpha", "beta", "gamma", "strict", "judges disagree"}

// blinded returns an evaluation of two questions, whose texts do not contain the names in unseen, with verdicts on all pairs.
func blinded() (results.Evaluation, map[string]string, []record.Entry) {
	e, texts, entries := disputed()
	names := map[string]string{"x": "alpha", "y": "beta", "z": "gamma"}
	plan := e.Plan
	plan.Judges[0].Name = "strict"
	clear(texts)
	for k := range plan.Documents {
		d := &plan.Documents[k]
		d.Candidate = names[d.Candidate]
		d.ID = plan.Items[d.Item].ID + "/" + d.Candidate
		text := fmt.Sprintf("Words of writer %d.\nSecond line. %s", k, hostile)
		if k%3 == 2 {
			text += strings.Repeat("\nA further line of a long text.", 200)
		}
		d.Hash, d.Bytes = eval.TextHash(text), len(text)
		texts[d.Hash] = text
	}
	plan.Normalize()
	for _, entry := range entries {
		r := entry.Run
		for k := range r.Documents {
			r.Candidates[k] = names[r.Candidates[k]]
			r.Documents[k] = r.Item + "/" + r.Candidates[k]
		}
		r.Winner = r.Item + "/" + names[strings.TrimPrefix(r.Winner, r.Item+"/")]
		if r.Judge == "j1" {
			r.Judge = "strict"
		}
	}
	e.ID, e.Settings = plan.ID(), record.Settings{}
	return e, texts, entries
}

// polls serves the page where people vote on an evaluation.
type polls struct {
	*site
	at  string // the results store
	cfg Config
}

// newPolls serves blinded() by a secret link, unless change sets accounts.
func newPolls(t *testing.T, at string, change func(*Config)) *polls {
	t.Helper()
	e, texts, entries := blinded()
	return newPollsOf(t, at, e, texts, entries, change)
}

// newPollsOf serves the votes on an evaluation.
func newPollsOf(
	t *testing.T, at string, e results.Evaluation, texts map[string]string, entries []record.Entry, change func(*Config),
) *polls {
	t.Helper()
	db, err := results.Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.PutEvaluation(t.Context(), e, maps.All(texts)); err != nil {
		t.Fatal(err)
	}
	if err := db.Append(t.Context(), e.ID, entries); err != nil {
		t.Fatal(err)
	}

	open := func(ctx context.Context) (results.Reader, error) { return results.OpenReadOnly(ctx, at) }
	cfg := Config{
		Folder:  &Folder{Open: open, Status: func(results.Listed) record.Status { return record.StatusDone }},
		Results: func(ctx context.Context, _ eval.ID) (results.Reader, error) { return open(ctx) },
		Voting:  DefaultVoting(), Log: zerolog.Nop(),
	}
	cfg.Voting.Open = func(ctx context.Context, _ eval.ID) (results.Store, error) { return results.Open(ctx, at) }
	cfg.Voting.Only, cfg.Voting.Key = e.ID, []byte("a secret of this test")
	if change != nil {
		change(&cfg)
	}
	p := &polls{&site{t: t, done: e.ID, pages: New(cfg)}, at, cfg}
	p.server = httptest.NewServer(p.pages)
	t.Cleanup(p.server.Close)
	return p
}

// votes returns who voted what, in the results store.
func (p *polls) votes() map[string]results.VoteRow {
	p.t.Helper()
	db, err := results.OpenReadOnly(p.t.Context(), p.at)
	if err != nil {
		p.t.Fatal(err)
	}
	defer db.Close()
	all := map[string]results.VoteRow{}
	for row, err := range db.Votes(p.t.Context(), p.done) {
		if err != nil {
			p.t.Fatal(err)
		}
		all[row.Annotator+" "+row.Document1+" "+row.Document2] = row
	}
	return all
}

// browser is that of a person.
type browser struct {
	*polls
	client   *http.Client
	name     string
	password string // empty: the browser came by the link
}

func (p *polls) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return &browser{polls: p, client: &http.Client{Jar: jar}}
}

// invited returns a browser that has opened the link, and given a name.
func (p *polls) invited(name string) *browser {
	p.t.Helper()
	b := p.browser()
	if code, page := b.get(p.cfg.Voting.LinkPath()); code != http.StatusOK || !strings.Contains(page, "Your name or initials") {
		p.t.Fatalf("the link answers %d: %s", code, page)
	}
	b.name = name
	if code, page := b.post(url.Values{"say": {"name"}, "name": {name}}); code != http.StatusOK || strings.Contains(page, "Your name or initials") {
		p.t.Fatalf("after the name %q: %d: %s", name, code, page)
	}
	return b
}

func (b *browser) do(r *http.Request) (int, string) {
	b.t.Helper()
	if b.password != "" {
		r.SetBasicAuth(b.name, b.password)
	}
	response, err := b.client.Do(r)
	if err != nil {
		b.t.Error(err)
		return 0, ""
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Error(err)
	}
	return response.StatusCode, string(raw)
}

func (b *browser) get(path string) (int, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.server.URL+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.do(r)
}

func (b *browser) path() string { return "/evaluations/" + string(b.done) + "/vote" }

func (b *browser) post(form url.Values, header ...string) (int, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.server.URL+b.path(), strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for k := 0; k+1 < len(header); k += 2 {
		r.Header.Set(header[k], header[k+1])
	}
	return b.do(r)
}

var ticketOf = regexp.MustCompile(`<form id="(vote|undo)"[^>]*>\s*<input type="hidden" name="vote" value="([^"]+)"`)

// tickets returns the tickets of the page's two forms.
func tickets(page string) (vote, undo string) {
	for _, form := range ticketOf.FindAllStringSubmatch(page, -1) {
		if form[1] == "vote" {
			vote = form[2]
		} else {
			undo = form[2]
		}
	}
	return vote, undo
}

func (b *browser) open() (page, vote, undo string) {
	b.t.Helper()
	code, page := b.get(b.path())
	if code != http.StatusOK {
		b.t.Fatalf("the page answers %d: %s", code, page)
	}
	vote, undo = tickets(page)
	return page, vote, undo
}

// say answers the form with a ticket.
func (b *browser) say(ticket, what string) string {
	b.t.Helper()
	code, page := b.post(url.Values{"vote": {ticket}, "say": {what}, "note": {"because " + what}})
	if code != http.StatusOK {
		b.t.Fatalf("%s answers %d: %s", what, code, page)
	}
	return page
}

// browserOfLink returns a browser that has opened the link, without a name.
func (p *polls) browserOfLink() *browser {
	b := p.browser()
	b.get(p.cfg.Voting.LinkPath())
	return b
}
