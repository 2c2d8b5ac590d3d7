package report

import (
	"encoding/json"
	"fmt"
	"html"
	"math"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/results"
)

// enoughOf is three candidates on twelve items, three pairs each, of which the first two are
// near each other, at 0.02 USD a pair.
func enoughOf(t *testing.T, unpriced int) *Report {
	t.Helper()
	items := make([]string, 12)
	for k := range items {
		items[k] = fmt.Sprintf("q%02d", k)
	}
	m := sourceOf(plan([]string{"a", "b", "c"}, items, "j"))
	for k, item := range items {
		for _, pair := range [][2]string{{"a", "b"}, {"a", "c"}, {"b", "c"}} {
			first, second := item+"/"+pair[0], item+"/"+pair[1]
			winner := first
			if pair[1] == "b" && k%12 < 5 || pair[1] == "c" && k == 3 {
				winner = second
			}
			m.verdict(0, first, second, winner, "r")
			m.verdict(0, second, first, winner, "r")
		}
	}
	m.counts = []results.PhaseCounts{{Kind: "pairwise", Runs: len(m.pairwise), Succeeded: len(m.pairwise)}}
	m.progress = []results.Progress{{Judge: "j", Succeeded: len(m.pairwise), Used: results.Usage{Calls: 72, CostUSD: 0.72, Unpriced: unpriced}}}
	return built(t, m, Options{})
}

// TestEnough: each form says how sure the order of neighbours is, and how many pairs and
// dollars would settle it.
func TestEnough(t *testing.T) {
	t.Parallel()
	r := enoughOf(t, 0)
	group := r.Groups[0]
	if len(group.Neighbours) != 2 || group.Ranked[0].Name != "a" || r.Pairs != 36 {
		t.Fatalf("%d pairs, neighbours %+v", r.Pairs, group.Neighbours)
	}
	near, far := group.Neighbours[0], group.Neighbours[1]
	if near.apart() || !(near.Right > 0.5 && near.Right < 0.95) || !(near.Clusters > 1) || math.IsInf(near.Clusters, 1) || !far.apart() || far.Pairs != 0 || !(far.Right > 0.8) {
		t.Fatalf("neighbours %+v and %+v, want the first undecided and the second decided", near, far)
	}
	if near.Pairs != 3*near.Clusters || math.Abs(near.Pairs*r.pairCost()-0.02*near.Pairs) > 1e-9 {
		t.Errorf("%v items have %v pairs for $%v, want 3 each for $0.02", near.Clusters, near.Pairs, near.Pairs*r.pairCost())
	}
	var out reportJSON
	texts := forms(t, r)
	if err := json.Unmarshal([]byte(texts["json"]), &out); err != nil {
		t.Fatal(err)
	}
	got := out.Rankings[0].Neighbours
	if len(got) != 2 || got[0].Candidate != "a" || got[0].Next != "b" || got[0].Apart || !got[1].Apart || math.Abs(float64(got[0].Pairs)-near.Pairs) > 1e-5 || math.Abs(float64(got[0].CostUSD)-0.02*near.Pairs) > 1e-5 {
		t.Errorf("the JSON has %+v", got)
	}
	if !strings.Contains(texts["html"], `<th class="left" scope="col">ahead of</th>`) || !strings.Contains(texts["html"], `<td class="left">b</td>`) {
		t.Error("the page aligns names as numbers")
	}
	delete(texts, "json")
	for form, text := range texts {
		text = strings.ReplaceAll(html.UnescapeString(text), `\$`, "$")
		for _, want := range []string{"Is it enough?", about(near.Clusters), about(near.Pairs), dollars(0.02 * near.Pairs), "$0.02"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q", form, want)
			}
		}
	}
	said := strings.Join(strings.Fields(card(t, r, CardOptions{TextOptions: TextOptions{Width: 80}})), " ")
	for _, want := range []string{"1 of 2 neighbour pairs told apart", probability(near.Right), "about " + about(near.Pairs) + " more pairs", dollars(0.02 * near.Pairs)} {
		if !strings.Contains(said, want) {
			t.Errorf("the card does not say %q:\n%s", want, said)
		}
	}
	if strings.Contains(r.enough(), "all pairs are compared") {
		t.Errorf("further items are possible: %s", r.enough())
	}
	one := built(t, tournament(names(6), []string{""}, []string{"j"}, []float64{0}, 0.5), Options{})
	if !strings.Contains(one.enough(), "all pairs are compared") || !strings.Contains(textOf(t, one, TextOptions{}), "All pairs of these documents are compared") {
		t.Errorf("no further pair is possible: %s", one.enough())
	}
	// Where the cost of some calls is not known, neither is that of more.
	if r := enoughOf(t, 1); !math.IsNaN(r.pairCost()) || strings.Contains(r.enough(), "$") || !strings.Contains(r.enough(), "more pairs for 95 %") {
		t.Errorf("with an unknown cost: %v, %s", r.pairCost(), r.enough())
	}
}

// TestAbout: estimates have two digits, and no more than a million.
func TestAbout(t *testing.T) {
	t.Parallel()
	for n, want := range map[float64]string{1: "1", 9: "9", 11.2: "12", 99: "99", 101: "110", 1234: "1,300", 99_999: "100,000", 2e6: "> 1,000,000", math.Inf(1): "> 1,000,000", math.NaN(): "–"} {
		if got := about(n); got != want {
			t.Errorf("about %v: %q, want %q", n, got, want)
		}
	}
	for usd, want := range map[float64]string{0.001: "< $0.01", 0.126: "$0.13", 12: "$12.00", 1234: "$1,300"} {
		if got := dollars(usd); got != want {
			t.Errorf("%v dollars: %q, want %q", usd, got, want)
		}
	}
}

// What cannot be counted is said in words, not as "about – more pairs" or "> 1,000,000 more pairs".
func TestFurtherPairsInWords(t *testing.T) {
	t.Parallel()
	r := enoughOf(t, 1)
	for pairs, want := range map[float64]string{
		math.NaN(): "and these verdicts cannot tell how many more pairs 95 % would take",
		2e6:        "and 95 % would take more than 1,000,000 further pairs",
		187:        "about 190 more pairs for 95 %",
	} {
		if got := r.furtherWords(pairs); got != want {
			t.Errorf("%v pairs: got %q, want %q", pairs, got, want)
		}
	}
}
