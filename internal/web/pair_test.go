package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
)

// disputed is an evaluation of two questions by two judges, with three answers each: on pair
// 0.0 the judges disagree, on 0.1 one follows the order, on 0.2 both differ from people, and
// on the others they agree.
func disputed() (results.Evaluation, map[string]string, []record.Entry) {
	plan := &eval.Evaluation{
		Name: "disputed", JSON: eval.JSONAuto,
		Judges:   []eval.Judge{{Name: "j1", Provider: "p", Model: "m"}, {Name: "j2", Provider: "p", Model: "n"}},
		Pairwise: &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1, Ties: true},
	}
	texts := map[string]string{}
	for i, item := range []string{"q1", "q2"} {
		plan.Items = append(plan.Items, eval.Item{ID: item, Question: "What is " + item + "? " + hostile})
		for _, candidate := range []string{"x", "y", "z"} {
			text := "The answer of " + candidate + " to " + item + ".\nSecond line. " + hostile
			if candidate == "z" {
				text += strings.Repeat("Z", readRunes)
			}
			texts[eval.TextHash(text)] = text
			plan.Documents = append(plan.Documents, eval.Document{ID: item + "/" + candidate, Item: i, Candidate: candidate, Hash: eval.TextHash(text), Bytes: len(text)})
		}
	}
	plan.Normalize()
	votes := eval.EncodeVotes([]eval.Vote{{Annotator: "ann", First: "q1/y", Second: "q1/z", Winner: "q1/z"}})
	texts[eval.TextHash(votes)] = votes
	e := results.Evaluation{
		ID: plan.ID(), Plan: plan, Phases: []record.Phase{{Kind: eval.KindPairwise, Runs: 24}}, Created: time.Unix(1e9, 0),
		Settings: record.Settings{Votes: eval.TextHash(votes)},
	}
	var entries []record.Entry
	for index := range 24 {
		pair, order, judge := index/4, index/2%2, index%2
		item, two := []string{"q1", "q2"}[pair/3], [][2]string{{"x", "y"}, {"x", "z"}, {"y", "z"}}[pair%3]
		winner := 0
		if pair == 0 && judge == 1 || pair == 1 && judge == 0 && order == 1 {
			winner = 1
		}
		r := &record.Run{
			Index: index, Kind: eval.KindPairwise, State: "succeeded", Queue: "p", Judge: plan.Judges[judge].Name, Model: plan.Judges[judge].Target(), AnsweredBy: plan.Judges[judge].Target(),
			Item: item, Documents: []string{item + "/" + two[0], item + "/" + two[1]}, Candidates: []string{two[0], two[1]}, Trial: 1, Attempts: 1, Worker: "w",
			Started: time.Unix(int64(2000+index), 0), Ended: time.Unix(int64(2001+index), 0), Winner: item + "/" + two[winner], Reason: fmt.Sprintf("Reason %d. %s", index, hostile),
		}
		if order == 1 {
			slices.Reverse(r.Documents)
			slices.Reverse(r.Candidates)
		}
		entries = append(entries, record.Entry{Run: r})
	}
	return e, texts, entries
}

func TestPairsAreFoundByTheirMarks(t *testing.T) {
	t.Parallel()
	e, texts, entries := disputed()
	s := explored(t, storeKinds["sqlite"](t), e, texts, entries)
	for query, want := range map[string][]string{
		"":                           {"0.0", "0.1", "0.2", "0.3", "0.4", "0.5"},
		"only=disagree":              {"0.0"},
		"only=flipped":               {"0.1"},
		"only=people":                {"0.2"},
		"text=REASON+13":             {"0.3"},
		"text=answer+of+X+to+q1":     {"0.0", "0.1"},
		"text=what+is+q2":            {"0.3", "0.4", "0.5"},
		"text=nothing+like+this":     {},
		"item=q1&only=flipped":       {"0.1"},
		"only=flipped&candidate=y":   {},
		"only=people&text=reason+10": {"0.2"},
	} {
		got := []string{}
		for after := ""; ; { // one pair a page, to its end
			page := read[Pairs](s, "/pairs?n=1&after="+after+"&"+query)
			for _, p := range page.Pairs {
				got = append(got, p.Short())
			}
			if after = page.Next; after == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	if got, _ := s.ask(http.MethodGet, "/evaluations/"+string(s.done)+"/pairs?only=all"); got.code != http.StatusBadRequest {
		t.Errorf("a mark that there is not answers %d", got.code)
	}
}

// TestPairPageTellsDegreesAndCriteria: where single verdicts are read, they say by how much a text is better, and what they
// are by criterion.
func TestPairPageTellsDegreesAndCriteria(t *testing.T) {
	t.Parallel()
	e, texts, entries := disputed()
	e.Plan.Pairwise.Degrees = 2
	e.Plan.Pairwise.Criteria = []eval.Criterion{{Name: "style", Description: "how it reads"}, {Name: "truth", Description: "what is true"}}
	e.Plan.Normalize()
	e.ID = e.Plan.ID()
	for k := range entries {
		run := entries[k].Run
		run.Degree = 2
		run.Criteria = []record.Preference{{Criterion: "style", Winner: run.Documents[1], Degree: 1}, {Criterion: "truth", Winner: eval.Tie}}
	}
	s := explored(t, storeKinds["sqlite"](t), e, texts, entries)
	for _, path := range []string{"/pairs/0.0", "/pairs", "/results"} {
		_, page := s.ask(http.MethodGet, "/evaluations/"+string(s.done)+path)
		for _, want := range []string{"x wins, much better", "style: y wins, better; truth: tie</div>"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s lacks %q", path, want)
			}
		}
	}
}

func TestPairPage(t *testing.T) {
	t.Parallel()
	e, texts, entries := disputed()
	s := explored(t, storeKinds["sqlite"](t), e, texts, entries)
	of := "/evaluations/" + string(s.done) + "/pairs/"
	got, page := s.ask(http.MethodGet, of+"0.2?only=people")
	for _, words := range []string{
		"What is q1?", "The answer of y to q1.\nSecond line.", "The answer of z to q1.", "The text is longer.", "Reason 8.", "Reason 11.",
		"differs from people", "People: <b>0</b> for y", "<b>1</b> for z", `rel="next"`, `rel="prev"`, "/assets/keys.js", of + "0.2\">all pairs",
		`<div class="prose bounded" role="group" aria-labelledby="text-0" tabindex="0">The answer of y`, // the keyboard scrolls it
	} {
		if got.code != http.StatusOK || !strings.Contains(page, words) {
			t.Errorf("answers %d without %q", got.code, words)
		}
	}
	if strings.Contains(page, "<script>alert") || strings.Contains(page, "<img") || strings.Contains(page, "\u202e") || len(page) > 2*readRunes {
		t.Errorf("the page of %d bytes carries what was recorded as it is", len(page))
	}
	if got.header.Get("Content-Security-Policy") != pagePolicy {
		t.Errorf("the policy is %q", got.header.Get("Content-Security-Policy"))
	}
	pair := read[Reading](s, "/pairs/0.2")
	if pair.Pair.Votes != [3]int{0, 1, 0} || !pair.Pair.Unlike || pair.Texts[0].Document != "q1/y" || pair.Texts[0].Cut || !pair.Texts[1].Cut {
		t.Errorf("the JSON says %+v", pair.Pair)
	}
	for path, want := range map[string]string{
		"0.0?step=next": "0.1", "0.5?step=previous": "0.4", "0.3?only=disagree&step=previous": "0.0?only=disagree",
		"0.0?only=people&step=next": "0.2?only=people", "0.5?text=answer+of+x+to+q1&step=previous": "0.1?text=answer+of+x+to+q1",
		// Where there is none, to the same pair.
		"0.0?step=previous": "0.0?end=previous", "0.5?step=next": "0.5?end=next", "0.2?only=people&step=next": "0.2?end=next&only=people", "0.2?only=people&end=next&step=next": "0.2?end=next&only=people",
		"0.2?end=next&step=previous": "0.1", "0.2?end=previous&step=next": "0.3",
	} {
		if got := s.redirect(of + path); got != of+want {
			t.Errorf("%s leads to %q, want %q", path, got, of+want)
		}
	}
	for path, want := range map[string]int{
		"0.6": http.StatusNotFound, "1.0": http.StatusNotFound, "0.2?end=on": http.StatusBadRequest,
		"0.-1": http.StatusBadRequest, "x": http.StatusBadRequest, "0.0?step=on": http.StatusBadRequest, "0.0?judge=j1": http.StatusBadRequest,
	} {
		if got, text := s.ask(http.MethodGet, of+path); got.code != want {
			t.Errorf("%s answers %d, want %d\n%.500s", path, got.code, want, text)
		}
	}
}

// TestStepsEnd: the first and the last pair have no link beyond, also when runs of later pairs
// are not recorded, and a filtered one says so once a step has found none.
func TestStepsEnd(t *testing.T) {
	t.Parallel()
	e, texts, entries := disputed()
	s := explored(t, storeKinds["sqlite"](t), e, texts, entries[:20]) // pair 0.5 has no run yet
	const next, previous = `rel="next"`, `rel="prev"`
	for path, want := range map[string][3]bool{ // next, previous, no other
		"0.0": {true, false, false}, "0.3": {true, true, false}, "0.4": {false, true, false},
		"0.2?only=people": {true, true, false}, "0.2?end=next&only=people": {false, true, true}, "0.2?end=previous-nearest&only=people": {true, false, true},
	} {
		got, page := s.ask(http.MethodGet, "/evaluations/"+string(s.done)+"/pairs/"+path)
		if has := [3]bool{strings.Contains(page, next), strings.Contains(page, previous), strings.Contains(page, " pair like this")}; got.code != http.StatusOK || has != want {
			t.Errorf("%s answers %d with next, previous, no other %v; want %v", path, got.code, has, want)
		}
	}
}

// redirect is where an answer leads.
func (s *site) redirect(path string) string {
	s.t.Helper()
	client := *s.server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.server.URL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = response.Body.Close()
	to, err := url.Parse(response.Header.Get("Location"))
	if err != nil || response.StatusCode != http.StatusSeeOther {
		s.t.Fatalf("%s answers %d: %v", path, response.StatusCode, err)
	}
	return to.String()
}
