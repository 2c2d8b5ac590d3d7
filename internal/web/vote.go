package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/ballot"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Vote is the page on which a person votes on a pair. It has no name of a document, candidate or judge.
type Vote struct {
	ID        eval.ID
	Voter     string // empty: the page asks for a name
	Nothing   bool   // there is no pair left for the voter
	Question  string
	Reference string
	Texts     [2]Text // as they are shown; without names
	Ticket    string
	Last      string // ticket of the voter's last vote; empty: there is none
	Done      int    // pairs that the voter has voted on, or skipped
	Left      int    // with this one
	MostNote  int
}

// Title returns the title of the page.
func (v *Vote) Title() string {
	switch {
	case v.Voter == "":
		return "Vote"
	case v.Nothing:
		return "No pairs left to vote on"
	}
	return fmt.Sprintf("Pair %d of %d", v.Done+1, v.Done+v.Left)
}

// What a person can answer, in forms.
const (
	sayFirst  = "1"
	saySecond = "2"
	sayTie    = "tie"
	saySkip   = "skip"
	sayUndo   = "undo"
	sayName   = "name"
)

// vote answers with the pair that the user is asked about next.
func (s *Server) vote(w http.ResponseWriter, r *http.Request) {
	page, err := s.nextVote(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	v := s.view(r, "vote", page)
	v.Said = s.notes.read(r.URL.Query().Get("said"))
	s.write(w, http.StatusOK, "vote", v)
}

// voterOf returns the evaluation that a request votes on, and the user's name, which is empty if it is not known yet.
func (s *Server) voterOf(r *http.Request) (eval.ID, string, error) {
	id := eval.ID(r.PathValue("id"))
	only := s.cfg.Voting.Only
	switch {
	case s.cfg.Voting.Open == nil || only != "" && only != id:
		return "", "", fmt.Errorf("%w: people do not vote on this evaluation here", errNotFound)
	case !s.mayVote(r) && s.cfg.Accounts == nil:
		return "", "", fmt.Errorf("%w: votes need names: serve these pages with --auth-file, or use `evalfleet vote`", errNotFound)
	case !s.mayVote(r):
		return "", "", fmt.Errorf("%w: your account has the role viewer, which does not vote", errForbidden)
	}
	name, _ := r.Context().Value(user{}).(string)
	if name == "" && s.cfg.Voting.Key == nil || !harmless.IsName(name) && name != "" {
		return "", "", fmt.Errorf("%w: your account's name cannot be the name of a voter", errForbidden)
	}
	return id, name, nil
}

func (s *Server) nextVote(r *http.Request) (*Vote, error) {
	id, name, err := s.voterOf(r)
	if err != nil {
		return nil, err
	}
	if name == "" {
		return &Vote{ID: id, MostNote: mostNote}, nil
	}
	ctx := r.Context()
	reader, e, err := s.asked(ctx, id)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	of, err := s.ballot(ctx, e)
	if err != nil {
		return nil, err
	}
	said, err := of.Read(ctx, reader)
	if err != nil {
		return nil, err
	}

	who := voter{id, name}
	others := s.booth.others(who)
	turn := said.Next(name, s.cfg.Voting.PerPair, func(p ballot.Pair) int { return others[p] })
	page := &Vote{ID: id, Voter: name, Nothing: !turn.Found, Done: turn.Done, Left: turn.Left, MostNote: mostNote}
	tickets := ballot.TicketsOf(reader.ID(), id, name)
	if pair, last, ok := said.Last(name); ok {
		page.Last = tickets.Write(ballot.Ticket{Pair: pair, Chosen: last.Chosen, Changes: last.Changes})
	}
	if page.Nothing {
		s.booth.leave(who)
		return page, nil
	}
	s.booth.show(who, turn.Pair)
	page.Ticket = tickets.Write(ballot.Ticket{Pair: turn.Pair, Chosen: of.Chosen, Changes: turn.Changes})
	return page, page.read(ctx, reader, e, turn.Pair)
}

// read adds the question and the texts of a pair, on the sides on which the voter sees them.
func (v *Vote) read(ctx context.Context, reader results.Reader, e results.Evaluation, pair ballot.Pair) error {
	two := [2]eval.Document{e.Plan.Documents[pair[0]], e.Plan.Documents[pair[1]]}
	texts, err := reader.Texts(ctx, []string{two[0].Hash, two[1].Hash})
	if errors.Is(err, results.ErrNoText) {
		return fmt.Errorf("%w: a text of this pair is not in the results store", errNotFound)
	}
	if err != nil {
		return err
	}
	if ballot.Swapped(e.ID, v.Voter, two[0].ID, two[1].ID) {
		two[0], two[1] = two[1], two[0]
	}

	for k, document := range two {
		document = document.Unnamed()
		whole := document.Readable(texts[document.Hash])
		if len(document.Images) == 1 && whole == document.Images[0].String() { // which is shown
			whole = ""
		}
		short := wording.Clip(whole, readRunes)
		v.Texts[k] = Text{Text: short, Cut: short != whole, Images: picturesOf(e.ID, document)}
	}
	item := e.Plan.Items[two[0].Item]
	v.Question, v.Reference = wording.Clip(item.Question, readRunes), wording.Clip(item.KnownReference(), readRunes)
	return nil
}

// castVote stores what a form says, and redirects to the next pair; vote.js gets its address as text. Once it has answered,
// the vote is in the results store. guard has ruled out forms sent by another site's page.
func (s *Server) castVote(w http.ResponseWriter, r *http.Request) {
	id, name, err := s.voterOf(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if !readForm(w, r) {
		return
	}

	var said string
	switch say := r.PostForm.Get("say"); {
	case say == sayName && s.cfg.Voting.Key != nil:
		if name == "" { // a browser keeps its name
			said, err = s.nameVoter(w, r, id, r.PostForm.Get("name"))
		}
	case name == "":
		err = badRequest("say first under which name you vote")
	default:
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actTime)
		defer cancel()
		said, err = s.cast(ctx, id, name, say, r.PostForm)
	}

	if err != nil {
		if statusOf(err) == http.StatusServiceUnavailable {
			s.cfg.Log.Warn().Err(err).Str("voter", name).Msg("a vote is not recorded")
		}
		s.fail(w, r, err)
		return
	}
	to := votePath(id)
	if said != "" {
		to += "?said=" + s.notes.keep(note{Text: said, Bad: true})
	}
	if r.Header.Get("Accept") == plainText { // vote.js, which takes the redirect of a proxy to its login for no vote
		w.Header().Set("Content-Type", plainText)
		_, _ = io.WriteString(w, to)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

const plainText = "text/plain; charset=utf-8"

// cast stores or undoes a vote. It returns words for the voter if nothing was changed.
func (s *Server) cast(ctx context.Context, id eval.ID, name, say string, form url.Values) (said string, err error) {
	note := strings.TrimSpace(strings.ReplaceAll(form.Get("note"), "\r\n", "\n"))
	if n := utf8.RuneCountInString(note); n > mostNote || !utf8.ValidString(note) {
		return "", badRequest("the note has %d characters, and may have %d of valid text", n, mostNote)
	}
	db, err := s.cfg.Voting.Open(ctx, id)
	if err != nil {
		return "", noResults(err)
	}
	defer db.Close()
	e, err := db.Evaluation(ctx, id)
	if err != nil {
		return "", err
	}
	ticket, ok := ballot.TicketsOf(db.ID(), id, name).Read(form.Get("vote"), len(e.Plan.Documents))
	if !ok || (say == sayUndo) != (ticket.Changes%2 == 1) { // what is undone is a vote
		return "", badRequest("this form is not of a pair that you were shown here: open the page again")
	}

	two := [2]eval.Document{e.Plan.Documents[ticket.Pair[0]], e.Plan.Documents[ticket.Pair[1]]}
	v := results.PageVote{
		Annotator: name, Document1: two[0].ID, Document2: two[1].ID, Item: e.Plan.Items[two[0].Item].ID,
		Candidate1: two[0].Candidate, Candidate2: two[1].Candidate, ShownFirst: two[0].ID, Chosen: ticket.Chosen,
		Note: note, At: time.Now(), Changes: ticket.Changes,
	}
	if say == sayUndo {
		_, err := db.UndoVote(ctx, id, v) // that it is undone already is as good
		return "", err
	}

	swapped := ballot.Swapped(id, name, v.Document1, v.Document2)
	if swapped {
		v.ShownFirst = v.Document2
	}
	switch {
	case say == sayTie:
		v.Said = results.SaidTie
	case say == saySkip:
		v.Said = results.SaidSkip
	case say != sayFirst && say != saySecond:
		return "", badRequest("%q is no vote: want 1, 2, tie or skip", say)
	case (say == sayFirst) != swapped:
		v.Said = results.SaidFirst
	default:
		v.Said = results.SaidSecond
	}
	v.Changes++
	stored, err := db.PutVote(ctx, id, v)
	if err != nil || stored {
		return "", err
	}
	return s.unstored(ctx, db, id, v)
}

// unstored says why a vote was not stored. It is empty if the same vote is in force.
func (s *Server) unstored(ctx context.Context, db results.Reader, id eval.ID, v results.PageVote) (string, error) {
	for kept, err := range db.PageVotes(ctx, id) {
		switch {
		case err != nil:
			return "", err
		case kept.Annotator != v.Annotator || kept.Document1 != v.Document1 || kept.Document2 != v.Document2:
		case kept.Changes > v.Changes:
			return "Your vote on that pair was undone meanwhile, and is not recorded again.", nil
		case kept.Said != v.Said || kept.Note != v.Note:
			return "You had voted on that pair already, perhaps in another tab. That vote stays; undo it to change it.", nil
		}
	}
	return "", nil
}
