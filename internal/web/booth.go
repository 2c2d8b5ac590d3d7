package web

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/ballot"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/web/moment"
)

// Voting configures the page on which people vote.
type Voting struct {
	// Open opens the results store of an evaluation for writing. nil: there is no such page.
	Open func(context.Context, eval.ID) (results.Store, error)
	ballot.Settings
	// PerPair is how many people are asked about each pair.
	PerPair int
	// Only is the evaluation that is voted on, and these pages show nothing else; empty: any, beside all other pages.
	Only eval.ID
	// Key makes the secret link of Only that lets people vote under a name that they choose. nil: accounts say who votes.
	Key []byte
}

// DefaultVoting returns the settings of a page that is not configured.
func DefaultVoting() Voting {
	return Voting{Settings: ballot.Settings{Chosen: results.ChosenSample, Sample: 100}, PerPair: 2}
}

// LinkPath returns the path of the secret link.
func (v Voting) LinkPath() string { return linkPath + v.seal("link") }

const (
	linkPath = "/vote/"
	// mostName bounds the name that a voter chooses, in characters.
	mostName = 64
	// mostNote bounds a note, in characters.
	mostNote = 2000
)

// seal returns a text that only the owner of the key can make.
func (v Voting) seal(parts ...string) string {
	mac := hmac.New(sha256.New, v.Key)
	for _, part := range append([]string{string(v.Only)}, parts...) {
		fmt.Fprintf(mac, "%d %s", len(part), part)
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// booth holds what the page where people vote needs beside the results store. It may be lost at any time.
type booth struct {
	ballots moment.Cache[drawnFor, *ballot.Ballot]

	mu    sync.Mutex // guards all below
	shown map[voter]showing
	named map[string]string // by name of a voter of the link: the browser that it was given to
}

type voter struct {
	id   eval.ID
	name string
}

// showing is the pair that a voter was shown last.
type showing struct {
	ballot.Pair
	until time.Time
}

const (
	// shownFor is how long a pair that was shown counts as taken by its voter.
	shownFor = 10 * time.Minute
	// mostVoters is how many voters are kept in memory.
	mostVoters = 10_000
)

// drawnFor identifies a ballot. phases changes when judges compare further pairs.
type drawnFor struct {
	id     eval.ID
	phases string
}

const (
	// sampleKept is how long a sample, which depends on no result, is kept.
	sampleKept = time.Hour
	// chosenKept is how long pairs that depend on results are asked about before they are chosen anew.
	chosenKept = time.Minute
)

func (s *Server) newBooth() *booth {
	b := &booth{shown: map[voter]showing{}, named: map[string]string{}}
	keep := chosenKept
	if s.cfg.Voting.Chosen == results.ChosenSample {
		keep = sampleKept
	}
	b.ballots = moment.Cache[drawnFor, *ballot.Ballot]{Keep: keep, AtOnce: mostReports, Waiting: waitingReports, Make: s.draw}
	return b
}

// draw chooses the pairs of an evaluation.
func (s *Server) draw(ctx context.Context, of drawnFor) (*ballot.Ballot, error) {
	reader, e, err := s.asked(ctx, of.id)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	return ballot.Draw(ctx, reader, e, s.cfg.Voting.Settings, func(ctx context.Context) (*report.Report, error) {
		return s.reports.Get(ctx, reported{id: of.id})
	})
}

// ballot returns the pairs that people are asked about.
func (s *Server) ballot(ctx context.Context, e results.Evaluation) (*ballot.Ballot, error) {
	var phases strings.Builder
	for _, phase := range e.Phases {
		fmt.Fprintf(&phases, "%d %v ", phase.Runs, phase.Open)
	}
	return s.booth.ballots.Get(ctx, drawnFor{e.ID, phases.String()})
}

// others counts the other voters who are looking at each pair.
func (b *booth) others(of voter) map[ballot.Pair]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	counts, now := map[ballot.Pair]int{}, time.Now()
	for who, at := range b.shown {
		if who.id == of.id && who.name != of.name && now.Before(at.until) {
			counts[at.Pair]++
		}
	}
	return counts
}

// show notes that a voter is shown a pair.
func (b *booth) show(who voter, pair ballot.Pair) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for other, at := range b.shown {
		if now.After(at.until) || len(b.shown) > mostVoters {
			delete(b.shown, other)
		}
	}
	b.shown[who] = showing{pair, now.Add(shownFor)}
}

// leave notes that a voter is shown no pair.
func (b *booth) leave(who voter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.shown, who)
}

// take gives a name to a browser; false: another one has it.
func (b *booth) take(name, browser string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, taken := b.named[name]; taken || len(b.named) >= mostVoters {
		return false
	}
	b.named[name] = browser
	return true
}

// owns reports whether a browser may use a name that it was given, perhaps by an earlier server.
func (b *booth) owns(name, browser string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	of, taken := b.named[name]
	if !taken && len(b.named) < mostVoters {
		b.named[name] = browser
	}
	return !taken || of == browser
}

// mayVote reports whether the user may vote.
func (s *Server) mayVote(r *http.Request) bool {
	known := s.cfg.Accounts != nil || s.cfg.Voting.Key != nil
	return s.cfg.Voting.Open != nil && known && roleOf(r) != viewerRole
}

// onlyVotes reports whether the user sees nothing but the page where people vote.
func (s *Server) onlyVotes(r *http.Request) bool {
	return roleOf(r) == voterRole || s.cfg.Voting.Only != ""
}

// votersOnly refuses all other pages to those who may only vote.
func (s *Server) votersOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		id, page := strings.CutSuffix(strings.TrimPrefix(path, "/evaluations/"), "/vote")
		votes := page && strings.HasPrefix(path, "/evaluations/") && !strings.Contains(id, "/")
		of, _, image := strings.Cut(path, imagePath)
		votes = votes || image && s.votesOn(eval.ID(strings.TrimPrefix(of, "/evaluations/")))
		switch {
		case !s.onlyVotes(r), votes, strings.HasPrefix(path, "/assets/"), path == "/healthz":
			next.ServeHTTP(w, r)
		case path == "/" && s.cfg.Voting.Only != "":
			http.Redirect(w, r, votePath(s.cfg.Voting.Only), http.StatusSeeOther)
		default:
			s.fail(w, r, fmt.Errorf("%w: you may vote here, and see nothing else: open the link to vote that you were given", errForbidden))
		}
	})
}

// votesOn reports whether people vote on an evaluation here.
func (s *Server) votesOn(id eval.ID) bool {
	return id.Valid() && (s.cfg.Voting.Only == "" || s.cfg.Voting.Only == id)
}

func votePath(id eval.ID) string { return "/evaluations/" + string(id) + "/vote" }

// The cookies of the secret link, for one evaluation: browsers send those of one port to all ports.
func (v Voting) linkCookie() string { return "evalfleet-link-" + string(v.Only) }
func (v Voting) nameCookie() string { return "evalfleet-name-" + string(v.Only) }

// byLink passes on only requests of browsers that have opened the secret link, as those of a voter.
func (s *Server) byLink(next http.Handler) http.Handler {
	v := s.cfg.Voting
	secret := v.seal("link")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, opens := strings.CutPrefix(r.URL.Path, linkPath)
		if kept, err := r.Cookie(v.linkCookie()); err == nil && !opens {
			given = kept.Value
		}
		right := hmac.Equal([]byte(given), []byte(secret))
		switch {
		case opens && right:
			setCookie(w, r, v.linkCookie(), secret)
			http.Redirect(w, r, votePath(v.Only), http.StatusSeeOther)
		case right:
			next.ServeHTTP(w, as(r, s.nameOf(r), voterRole))
		case r.URL.Path == "/healthz", strings.HasPrefix(r.URL.Path, "/assets/"):
			next.ServeHTTP(w, r)
		default:
			s.fail(w, r, fmt.Errorf("%w: open the link that `evalfleet vote` has printed", errForbidden))
		}
	})
}

// cookieTime is how long a browser remembers the link and the name.
const cookieTime = 365 * 24 * time.Hour

// setCookie makes a browser remember a value. A page of another site can neither read it nor have it sent with a form.
func setCookie(w http.ResponseWriter, r *http.Request, name, value string) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(cookieTime.Seconds()), HttpOnly: true, Secure: r.TLS != nil,
		SameSite: http.SameSiteLaxMode, // Strict would not be sent after the link was opened from another site
	})
}

// nameOf returns the name in a browser's cookie; empty if it has none that was given out here, or to another browser.
func (s *Server) nameOf(r *http.Request) string {
	v := s.cfg.Voting
	kept, err := r.Cookie(v.nameCookie())
	if err != nil {
		return ""
	}
	parts := strings.Split(kept.Value, ".")
	if len(parts) != 3 {
		return ""
	}
	name, err := base64.RawURLEncoding.DecodeString(parts[0])
	browser := parts[1]
	if err != nil || !hmac.Equal([]byte(parts[2]), []byte(v.seal("name", string(name), browser))) || !s.booth.owns(string(name), browser) {
		return ""
	}
	return string(name)
}

// nameVoter gives the name in a form to the browser that sent it. It returns what is wrong with the name.
func (s *Server) nameVoter(w http.ResponseWriter, r *http.Request, id eval.ID, name string) (wrong string, err error) {
	name = strings.TrimSpace(name)
	switch n := utf8.RuneCountInString(name); {
	case n == 0:
		return "Enter a name.", nil
	case n > mostName:
		return fmt.Sprintf("The name is too long: %d characters, at most %d.", n, mostName), nil
	case !harmless.IsName(name):
		return "The name contains invisible characters: use another one.", nil
	}

	reader, _, err := s.asked(r.Context(), id)
	if err != nil {
		return "", err
	}
	defer reader.Close()
	const taken = "Another person has voted under this name: choose another one, such as with your initials."
	for vote, err := range reader.PageVotes(r.Context(), id) {
		if err != nil {
			return "", err
		}
		if vote.Annotator == name {
			return taken, nil
		}
	}
	browser := rand.Text()
	if !s.booth.take(name, browser) {
		return taken, nil
	}
	v := s.cfg.Voting
	encoded := base64.RawURLEncoding.EncodeToString([]byte(name))
	setCookie(w, r, v.nameCookie(), strings.Join([]string{encoded, browser, v.seal("name", name, browser)}, "."))
	return "", nil
}
