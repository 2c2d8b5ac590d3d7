package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
)

// A vote is in the results store once it is answered, and once only: whatever arrives twice, late, or from another tab.
func TestVotesAreRecordedOnce(t *testing.T) {
	t.Parallel()
	for name := range storeKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPolls(t, storeKinds[name](t), nil)
			anna := p.invited("anna")
			_, ticket, undo := anna.open()
			if _, again, _ := anna.open(); again != ticket || undo != "" {
				t.Errorf("another tab has the ticket %q, the first %q; undo: %q", again, ticket, undo)
			}

			anna.say(ticket, "1")
			if said := anna.say(ticket, "1"); strings.Contains(said, "already") {
				t.Error("a vote that arrives twice is said to be another one")
			}
			if said := anna.say(ticket, "2"); !strings.Contains(said, "You had voted on that pair already") {
				t.Error("another tab's vote is not said to be ignored")
			}
			page, next, undo := anna.open()
			if got := p.votes(); len(got) != 1 || next == ticket || undo == "" || !strings.Contains(page, "<b>1</b> done") {
				t.Fatalf("after a vote: %d votes, next %q, undo %q", len(got), next, undo)
			}
			var first results.VoteRow
			for _, first = range p.votes() {
			}
			if first.Winner != first.ShownFirst || first.Chosen != results.ChosenSample || first.Note != "because 1" || time.Since(first.At) > time.Hour {
				t.Errorf("text 1 was chosen, recorded is %+v", first)
			}

			anna.say(undo, "undo")
			anna.say(undo, "undo")
			if said := anna.say(ticket, "1"); !strings.Contains(said, "undone meanwhile") || len(p.votes()) != 0 {
				t.Errorf("an undone vote that arrives late: %d votes", len(p.votes()))
			}
			_, again, _ := anna.open()
			if again == ticket || again == next {
				t.Error("what was undone is not asked again with a ticket of its own")
			}
			anna.say(again, "2")
			for _, second := range p.votes() {
				if second.Winner == first.Winner || second.ShownFirst != first.ShownFirst || second.Document1 != first.Document1 {
					t.Errorf("asked again after %+v: %+v", first, second)
				}
			}
			anna.say(undo, "undo") // of the first vote, late
			if got := p.votes(); len(got) != 1 {
				t.Errorf("undoing an older vote left %d votes", len(got))
			}
			_, next, _ = anna.open()
			anna.say(next, "skip")
			_, next, _ = anna.open()
			anna.say(next, "tie")
			if got := p.votes(); len(got) != 2 {
				t.Errorf("after a skipped pair and a tie there are %d votes, want 2", len(got))
			}
		})
	}
}

// Nothing on the page tells whose texts these are, or what judges said.
func TestVotersSeeNoNames(t *testing.T) {
	t.Parallel()
	for _, chosen := range []string{results.ChosenSample, results.ChosenContested} {
		p := newPolls(t, storeKinds["sqlite"](t), func(cfg *Config) { cfg.Voting.Chosen = chosen })
		anna := p.invited("anna")
		pairs := 0
		for ; ; pairs++ {
			page, ticket, _ := anna.open()
			for _, name := range unseen {
				if strings.Contains(page, name) {
					t.Fatalf("a voter sees %q: %s", name, page)
				}
			}
			if ticket == "" {
				if !strings.Contains(page, "no more pairs for you") {
					t.Errorf("at the end: %s", page)
				}
				break
			}
			if strings.Contains(page, "<script>alert") || !strings.Contains(page, "What is q") || strings.Count(page, "Words of writer") != 2 {
				t.Fatalf("the page of a pair: %s", page)
			}
			anna.say(ticket, "1")
		}
		if want := map[string]int{results.ChosenSample: 6, results.ChosenContested: 2}[chosen]; pairs != want {
			t.Errorf("%s: asked about %d pairs, want %d", chosen, pairs, want)
		}
	}
}

// Each pair is for so many people, also if all vote at the same time.
func TestVotersAtOnce(t *testing.T) {
	t.Parallel()
	p := newPolls(t, storeKinds["sqlite"](t), nil)
	var people []*browser
	for _, name := range []string{"anna", "bo", "cy"} {
		people = append(people, p.invited(name))
	}
	var wg sync.WaitGroup
	for _, b := range people {
		wg.Go(func() {
			for {
				_, page := b.get(b.path())
				ticket, _ := tickets(page)
				if ticket == "" {
					return
				}
				var tabs sync.WaitGroup
				for range 3 { // the same vote from three tabs
					tabs.Go(func() { b.post(url.Values{"vote": {ticket}, "say": {"tie"}}) })
				}
				tabs.Wait()
			}
		})
	}
	wg.Wait()

	voters, byPair := map[string]int{}, map[string]int{}
	for _, row := range p.votes() {
		voters[row.Annotator]++
		byPair[row.Document1+" "+row.Document2]++
	}
	for pair, n := range byPair {
		if n != 2 {
			t.Errorf("%s has %d votes, want 2", pair, n)
		}
	}
	if len(byPair) != 6 || voters["anna"] == 0 || voters["bo"] == 0 || voters["cy"] == 0 {
		t.Errorf("votes by pair %v, by voter %v", byPair, voters)
	}
	db, err := results.OpenReadOnly(t.Context(), p.at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r, err := report.Build(t.Context(), db, p.done, report.Options{})
	if err != nil || r.People == nil || r.People.Votes != 12 || r.People.Sample != 12 || len(r.People.Annotators) != 3 {
		t.Errorf("the report has %+v, %v", r.People, err)
	}
}

// Only the link lets people in, and a name belongs to the browser that took it.
func TestLinkToVote(t *testing.T) {
	t.Parallel()
	p := newPolls(t, storeKinds["sqlite"](t), nil)
	stranger := p.browser()
	for _, path := range []string{"/", "/vote/", "/vote/" + strings.Repeat("A", 43), stranger.path(), "/evaluations/" + string(p.done), "/api/evaluations"} {
		if code, page := stranger.get(path); code != http.StatusForbidden || strings.Contains(page, "writer") || strings.Contains(page, "Your name") {
			t.Errorf("without the link %s answers %d", path, code)
		}
	}
	if code, _ := stranger.post(url.Values{"say": {"name"}, "name": {"eve"}}); code != http.StatusForbidden {
		t.Errorf("a name without the link answers %d", code)
	}
	other := p.cfg.Voting
	other.Key = []byte("another secret")
	if code, _ := stranger.get(other.LinkPath()); code != http.StatusForbidden {
		t.Errorf("the link of another key answers %d", code)
	}

	anna := p.invited("anna")
	_, ticket, _ := anna.open()
	anna.say(ticket, "1")
	eve := p.browser()
	eve.get(p.cfg.Voting.LinkPath())
	for name, want := range map[string]string{
		"anna": "Another person has voted under this name", " anna ": "Another person", "": "Enter a name", "e\u202eve": "invisible characters",
		strings.Repeat("e", 65): "too long",
	} {
		if _, page := eve.post(url.Values{"say": {"name"}, "name": {name}}); !strings.Contains(page, want) {
			t.Errorf("the name %q: no %q on the page", name, want)
		}
	}
	where, err := url.Parse(p.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	eve.client.Jar.SetCookies(where, []*http.Cookie{{Name: p.cfg.Voting.nameCookie(), Value: "YW5uYQ." + strings.Repeat("A", 43)}})
	if page, _, _ := eve.open(); !strings.Contains(page, "Your name or initials") {
		t.Error("a forged name is believed")
	}

	bo := p.invited("bo")
	_, _, undo := anna.open()
	for what, form := range map[string]url.Values{
		"another's vote undone": {"vote": {undo}, "say": {"undo"}}, "another's ticket": {"vote": {ticket}, "say": {"1"}},
		"no ticket": {"say": {"1"}}, "an unknown answer": {"vote": {ticket}, "say": {"3"}},
	} {
		if code, _ := bo.post(form); code != http.StatusBadRequest {
			t.Errorf("%s answers %d, want 400", what, code)
		}
	}
	if code, _ := anna.post(url.Values{"vote": {undo}, "say": {"1"}}); code != http.StatusBadRequest {
		t.Errorf("a vote with the ticket of an undoing answers %d, want 400", code)
	}
	_, next, _ := anna.open()
	if code, _ := anna.post(url.Values{"vote": {next}, "say": {"1"}, "note": {strings.Repeat("n", mostNote+1)}}); code != http.StatusBadRequest {
		t.Errorf("a long note answers %d, want 400", code)
	}
	if code, _ := anna.post(url.Values{"vote": {next}, "say": {"1"}}, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"); code != http.StatusForbidden {
		t.Errorf("another site's vote answers %d, want 403", code)
	}
	if got := p.votes(); len(got) != 1 {
		t.Errorf("%d votes are recorded, want anna's first", len(got))
	}

	// A server that starts again knows its link and the names that it gave out.
	again := New(p.cfg)
	p.server.Config.Handler = again
	late := p.browserOfLink()
	if _, page := late.post(url.Values{"say": {"name"}, "name": {"anna"}}); !strings.Contains(page, "Another person has voted under this name") {
		t.Error("after a new start another browser gets the name of anna, who has voted")
	}
	if page, _, undo := anna.open(); undo == "" || !strings.Contains(page, "<span>anna</span>") {
		t.Error("after a new start the browser is not that of anna")
	}

	// bo had not voted before the new start, so another browser got that name. It stays that one's.
	late.post(url.Values{"say": {"name"}, "name": {"bo"}})
	if page, _, _ := late.open(); !strings.Contains(page, "<span>bo</span>") {
		t.Error("a name without votes is not free after a new start")
	}
	if page, _, _ := bo.open(); !strings.Contains(page, "Your name or initials") {
		t.Error("two browsers vote under one name")
	}
}

// vote.js gets the address of the next page as text, with what it must tell the voter; a redirect could be a proxy's.
func TestVotesOfTheScript(t *testing.T) {
	t.Parallel()
	p := newPolls(t, storeKinds["sqlite"](t), nil)
	anna := p.invited("anna")
	_, ticket, _ := anna.open()
	say := func(what string) string {
		t.Helper()
		code, next := anna.post(url.Values{"vote": {ticket}, "say": {what}}, "Accept", "text/plain; charset=utf-8")
		if code != http.StatusOK {
			t.Errorf("%s answers %d", what, code)
		}
		return next
	}
	if next := say("1"); next != anna.path() {
		t.Errorf("after a vote the next page is %q", next)
	}
	if _, page := anna.get(say("2")); !strings.Contains(page, "You had voted on that pair already") {
		t.Error("the script does not tell the voter that another tab's vote stays")
	}
}

// The message to a voter whose vote cannot be recorded names no folder; the log has the reason.
func TestVotesThatAreNotRecorded(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	p := newPolls(t, storeKinds["sqlite"](t), func(cfg *Config) {
		cfg.Log = zerolog.New(&log)
		cfg.Voting.Open = func(context.Context, eval.ID) (results.Store, error) {
			return nil, errors.New("open /home/oz/gpt-6-wins/results.db: no space left")
		}
	})
	anna := p.invited("anna")
	_, ticket, _ := anna.open()
	code, page := anna.post(url.Values{"vote": {ticket}, "say": {"1"}})
	if code != http.StatusServiceUnavailable || strings.Contains(page, "gpt-6-wins") || !strings.Contains(page, "try again") {
		t.Errorf("a vote on a full disk answers %d: %s", code, page)
	}
	if got := log.String(); !strings.Contains(got, "no space left") || !strings.Contains(got, "a vote is not recorded") {
		t.Errorf("the log says %q", got)
	}
}

// A voter sees the page to vote, and no other page, with an account and by the link.
func TestVotersSeeNothingElse(t *testing.T) {
	t.Parallel()
	path := accountsFile(t, "anna", "secret", "vic", "secret", "oz", "secret")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	for k, line := range lines {
		switch {
		case strings.HasPrefix(line, "anna:"):
			lines[k] += ":voter"
		case strings.HasPrefix(line, "vic:"):
			lines[k] += ":viewer"
		}
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	accounts, err := OpenAccounts(path)
	if err != nil {
		t.Fatal(err)
	}

	fleet := newPolls(t, storeKinds["sqlite"](t), func(cfg *Config) {
		cfg.Accounts, cfg.Actions, cfg.Voting.Only, cfg.Voting.Key = accounts, &acts{}, "", nil
	})
	alone := newPolls(t, storeKinds["sqlite"](t), nil)
	account := func(name string) *browser {
		return &browser{polls: fleet, client: http.DefaultClient, name: name, password: "secret"}
	}
	id := "/evaluations/" + string(fleet.done)
	pages := []string{
		"/compare", id, id + "/report", id + "/answers", id + "/cancel", id + "/results", id + "/pairs", id + "/pairs/0.0", id + "/runs/0.0",
		id + "/files", "/limits", "/queues", "/queues/q/pending", "/workers", "/api/evaluations", "/api" + id, "/api" + id + "/pairs",
		"/api" + id + "/results", "/api" + id + "/files/verdicts.csv", "/api/limits", "/asynqmon/", "/asynqmon/api/queues", "/evaluations/a/b/vote",
	}
	for what, b := range map[string]*browser{"account": account("anna"), "link": alone.invited("anna")} {
		for _, page := range pages {
			if code, text := b.get(page); code != http.StatusForbidden || strings.Contains(text, "alpha") {
				t.Errorf("%s: %s answers %d, want 403", what, page, code)
			}
		}
		for _, action := range []string{"pause", "cancel", "retry"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.server.URL+id+"/"+action, nil)
			if err != nil {
				t.Fatal(err)
			}
			if code, _ := b.do(r); code != http.StatusForbidden {
				t.Errorf("%s: %s answers %d, want 403", what, action, code)
			}
		}
		page, ticket, _ := b.open()
		if ticket == "" || strings.Contains(page, `href="/"`) {
			t.Errorf("%s: the page to vote: %s", what, page)
		}
		b.say(ticket, "2")
		if got := b.votes(); len(got) != 1 {
			t.Errorf("%s: %d votes, want 1", what, len(got))
		}
	}

	if code, _ := account("anna").get("/"); code != http.StatusForbidden {
		t.Errorf("a voter's first page answers %d, want 403", code)
	}
	if code, page := alone.browserOfLink().get("/"); code != http.StatusOK || !strings.Contains(page, "Your name or initials") {
		t.Errorf("the first page by the link answers %d", code)
	}
	if code, _ := account("vic").get(id + "/vote"); code != http.StatusForbidden {
		t.Errorf("a viewer's vote page answers %d, want 403", code)
	}
	_, page := account("oz").get(id)
	if code, own := account("oz").get(id + "/vote"); code != http.StatusOK || !strings.Contains(own, "<span>oz</span>") || !strings.Contains(page, id+`/vote">vote`) {
		t.Errorf("an operator's vote page answers %d", code)
	}
	if _, page := account("vic").get(id); strings.Contains(page, "/vote") {
		t.Error("a viewer has a link to vote")
	}
}

// Without names, the pages take no votes. An evaluation that cannot be voted on says why.
func TestPagesWithoutVotes(t *testing.T) {
	t.Parallel()
	open := newPolls(t, storeKinds["sqlite"](t), func(cfg *Config) { cfg.Voting.Only, cfg.Voting.Key = "", nil })
	if code, page := open.browser().get("/evaluations/" + string(open.done) + "/vote"); code != http.StatusNotFound || !strings.Contains(page, "votes need names") {
		t.Errorf("without accounts the page to vote answers %d", code)
	}
	one := newPolls(t, storeKinds["sqlite"](t), nil)
	anna := one.invited("anna")
	if code, page := anna.get("/evaluations/ev-other/vote"); code != http.StatusNotFound || !strings.Contains(page, "do not vote on this evaluation here") {
		t.Errorf("another evaluation answers %d", code)
	}
}
