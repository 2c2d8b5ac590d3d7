//go:build look

package web

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/looktest"
)

// TestLookVotes has Chromium vote by the keyboard alone: each key does what it says, keys pressed twice and a lost
// connection record one vote, and the page looks right at two widths and in both themes.
func TestLookVotes(t *testing.T) {
	dir, b := looktest.Folder(t), looktest.NewBrowser(t)
	p := newPolls(t, storeKinds["sqlite"](t), nil)
	var away atomic.Bool
	p.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			panic(http.ErrAbortHandler) // the connection is lost
		}
		p.pages.ServeHTTP(w, r)
	})
	facts := func() (text string) {
		b.Run(`document.querySelector(".facts").textContent`, &text)
		return text
	}
	after := func(what, want string) {
		t.Helper()
		b.Loaded(what)
		if got := facts(); !strings.Contains(got, want) {
			t.Errorf("after %s the page says %q, want %q", what, got, want)
		}
	}

	b.Show(t, dir, "vote-name", p.server.URL+p.cfg.Voting.LinkPath(), "")
	b.Open(p.server.URL+p.cfg.Voting.LinkPath(), 1400, false)
	for _, key := range strings.Split("anna", "") { // the field has the focus
		b.Press(key)
	}
	b.Enter()
	after("the name", "anna0 done6 left")

	address := p.server.URL + "/evaluations/" + string(p.done) + "/vote"
	b.Show(t, dir, "vote", address, "")
	for _, width := range []int{1400, 400} { // the buttons are in sight below long texts
		b.Open(address, width, true)
		b.Press("n")
		var last float64
		b.Run(`document.querySelector(".ballot").getBoundingClientRect().bottom - innerHeight`, &last)
		if last > 0 {
			t.Errorf("at %d the buttons end %.0f pixels below the window", width, last)
		}
		b.Shoot(fmt.Sprintf("%s/vote-note-%d.png", dir, width))
	}
	b.Open(address, 1400, false)
	b.Press("ArrowLeft")
	after("ArrowLeft", "1 done5 left")
	b.Press("n")
	for _, key := range strings.Split("s1t u", "") { // letters of a note are no votes
		b.Press(key)
	}
	var focus string
	b.Run(`document.activeElement.id`, &focus)
	if focus != "note" {
		t.Errorf("after n the focus is on %q", focus)
	}
	b.Press("Escape")
	b.Press("2")
	after("2", "2 done4 left")
	b.Press("t")
	after("t", "3 done3 left")
	b.Press("u")
	after("u", "2 done4 left")
	b.Press("s")
	after("s", "3 done3 left")
	b.Shoot(dir + "/vote-again.png")
	b.Quiet("")

	b.Run(`for (const key of ["1", "2", "1"]) dispatchEvent(new KeyboardEvent("keydown", {key}))`, nil)
	after("three keys at once", "4 done2 left")
	away.Store(true)
	b.Press("1")
	b.Run(`new Promise(r => { const i = setInterval(() => { if (document.getElementById("state").textContent.includes("Not recorded yet")) { clearInterval(i); r(1); } }, 50); })`, nil)
	b.Shoot(dir + "/vote-away.png")
	away.Store(false)
	after("the connection is back", "5 done1 left")
	b.Quiet("ERR_EMPTY_RESPONSE")
	b.Run(`(f => fetch(f.action, {method: "POST", body: new URLSearchParams({vote: f.elements.vote.value, say: "2"})}))(document.getElementById("vote"))`, nil)
	b.Press("3") // after another tab's vote
	after("3", "6 done0 left")
	var said string
	b.Run(`document.body.textContent`, &said)
	if !strings.Contains(said, "You had voted on that pair already") {
		t.Error("another tab's vote, which stays, is not told")
	}
	b.Show(t, dir, "vote-end", address, "")

	ties, notes := 0, 0
	for _, v := range p.votes() {
		if v.Winner == "tie" {
			ties++
		}
		if v.Note == "s1t u" {
			notes++
		}
	}
	if got := len(p.votes()); got != 5 || ties != 0 || notes != 1 {
		t.Errorf("%d votes, %d ties and %d notes are recorded; want 5, 0 and 1", got, ties, notes)
	}
}
