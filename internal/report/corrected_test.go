package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
)

// votedOn returns an evaluation of four candidates on 80 items. Its judge likes the first best, or with sign −1 the last.
// People like the first best, mostly for the texts that a judge of sign 1 prefers, too. They voted on that many pairs, two
// people on every third.
func votedOn(voted int, sign float64, chosen string) *memory {
	const items = 80
	m := tournament([]string{"a", "b", "c", "d"}, names(items), []string{"j"}, []float64{0}, 1)
	liked := map[[2]string]string{}
	for _, row := range m.pairwise {
		liked[[2]string{row.Document1, row.Document2}] = row.Winner
	}
	if sign < 0 {
		for k := range m.pairwise {
			switch row := &m.pairwise[k]; row.Winner {
			case row.Document1:
				row.Winner = row.Document2
			case row.Document2:
				row.Winner = row.Document1
			}
		}
	}
	random := rand.New(rand.NewPCG(3, 9))
	var pairs [][2]eval.Document
	documents := m.evaluation.Plan.Documents
	for i, first := range documents {
		for _, second := range documents[i+1:] {
			if first.Item == second.Item {
				pairs = append(pairs, [2]eval.Document{first, second})
			}
		}
	}
	random.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	for k, pair := range pairs[:voted] {
		for person := range 1 + (k+2)%3/2 {
			winner := pair[0].ID
			switch said := liked[[2]string{pair[0].ID, pair[1].ID}]; {
			case random.Float64() < 0.7 && said != eval.Tie:
				winner = said
			case (random.Float64() < 0.8) == (pair[0].Candidate > pair[1].Candidate):
				winner = pair[1].ID
			}
			m.vote(fmt.Sprintf("voter %d", person), pair[0].ID, pair[1].ID, winner)
			m.votes[len(m.votes)-1].Chosen = chosen
		}
	}
	return m
}

// TestVotesCorrectTheRanking: with votes on a random sample, the report has the ranking that people would give on all pairs,
// also where the judge prefers the opposite, and says in every form what the votes changed. The headline stays the judges'.
func TestVotesCorrectTheRanking(t *testing.T) {
	t.Parallel()
	for sign, judges := range map[float64]string{1: "a", -1: "d"} {
		r := built(t, votedOn(90, sign, results.ChosenSample), Options{})
		c := r.People.Corrected
		if c.Why != "" || c.Pairs != 480 || c.Voted != 90 || c.Votes != 120 || len(c.Groups) != 1 {
			t.Fatalf("%+v", *c)
		}
		if first := c.Groups[0].Ranked[0].Name; first != "a" || r.Groups[0].Ranked[0].Name != judges {
			t.Errorf("people rank %s first, judges %s", first, r.Groups[0].Ranked[0].Name)
		}
		if (c.Lambda > 0) != (sign > 0) {
			t.Errorf("judges of sign %v count as %v", sign, c.Lambda)
		}
		for k, one := range c.Groups[0].Ranked {
			alone := r.People.Groups[0].Ranked
			if len(alone) != 4 || !(one.Low < one.Ability && one.Ability < one.High) || sign < 0 && one.SE > 1.3*alone[k].SE {
				t.Errorf("%s: ± %v, by votes alone %v", one.Name, one.SE, alone[k].SE)
			}
		}

		says := ", as judges do"
		if sign < 0 {
			says = ", and not “d” as judges do"
		}
		says = "On all pairs, people would rank “a” first" + says + ": corrected by 120 votes on 90 pairs of a random sample, of the 480 pairs that judges compared."
		var markdown, written bytes.Buffer
		if err := r.WriteMarkdown(&markdown); err != nil {
			t.Fatal(err)
		}
		for form, text := range map[string]string{
			"text": textOf(t, r, TextOptions{Width: 400}), "page": pageOf(t, r), "markdown": markdown.String(),
		} {
			if !strings.Contains(text, says) {
				t.Errorf("the %s does not say: %s", form, says)
			}
		}
		for _, more := range []string{"Rank by people", "Ranks by people"} {
			if strings.Contains(textOf(t, r, TextOptions{Width: 400}), more) || strings.Contains(pageOf(t, r), more) {
				t.Errorf("%s is shown beside people's ranking on all pairs", more)
			}
		}
		if text := textOf(t, r, TextOptions{Width: 400}); !strings.Contains(text, "votes alone") || !strings.Contains(text, "voter 0") {
			t.Error("people's ranking lacks those by their votes alone and by each person")
		}
		if err := r.WriteJSON(&written); err != nil {
			t.Fatal(err)
		}
		var form struct {
			People struct {
				Corrected struct {
					Pairs, Voted, Votes int
					Rankings            []struct{ Candidates []struct{ Candidate string } }
				}
			}
		}
		if err := json.Unmarshal(written.Bytes(), &form); err != nil {
			t.Fatal(err)
		}
		if got := form.People.Corrected; got.Pairs != 480 || got.Voted != 90 || got.Votes != 120 || got.Rankings[0].Candidates[0].Candidate != "a" {
			t.Errorf("JSON: %+v", got)
		}
	}
}

// TestCardTellsOfPeople: the card says how much people voted and whom they rank first, if they voted on enough pairs.
func TestCardTellsOfPeople(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		m    *memory
		want string
	}{
		{votedOn(90, -1, results.ChosenSample), "120 votes by 2 people on 90 pairs of texts. On all pairs, people would rank “a” first, and not “d” as " +
			"judges do. At 95 % confidence, any of 3 could be first.\n"},
		{votedOn(200, 1, ""), "267 votes by 2 people on 200 pairs of texts. They rank “a” first, as judges do. At 95 % confidence, any of 3 could be first.\n"},
		{votedOn(3, 1, ""), "4 votes by 2 people on 3 pairs of texts.\n"},
		{votedOn(0, 1, ""), ""},
	} {
		var card bytes.Buffer
		if err := built(t, tt.m, Options{}).WriteCard(&card, CardOptions{TextOptions: TextOptions{Width: 300}}); err != nil {
			t.Fatal(err)
		}
		if got := card.String(); tt.want == "" && strings.Contains(got, "People ") || !strings.Contains(got, tt.want) {
			t.Errorf("the card does not say %q of people:\n%s", tt.want, got)
		}
	}
}

// TestVotesCorrectNothing: where votes are few, or not known to be on a random sample of all pairs, the report says why
// they correct no ranking.
func TestVotesCorrectNothing(t *testing.T) {
	t.Parallel()
	rounds := votedOn(90, 1, results.ChosenSample)
	rounds.evaluation.Phases = append(rounds.evaluation.Phases, record.Phase{Kind: eval.KindPairwise}, record.Phase{Kind: eval.KindPairwise})
	for name, one := range map[string]struct {
		m   *memory
		why string
	}{
		"few":       {votedOn(29, 1, results.ChosenSample), "people voted on 29 pairs of the random sample that judges compared, and 30 are needed"},
		"contested": {votedOn(90, 1, results.ChosenContested), "no vote is known to be on a random sample of the pairs"},
		"a file":    {votedOn(90, 1, ""), "no vote is known to be on a random sample of the pairs"},
		"rounds":    {rounds, "the pairs of this evaluation are chosen in rounds, so no sample is of all of them"},
	} {
		r := built(t, one.m, Options{})
		c := r.People.Corrected
		if c.Why != one.why || c.Groups != nil {
			t.Errorf("%s: %+v", name, *c)
		}
		if text := textOf(t, r, TextOptions{Width: 400}); !strings.Contains(text, "Votes correct no ranking: "+one.why+".") {
			t.Errorf("%s: the report does not say why", name)
		}
	}
	if c := built(t, votedOn(30, 1, results.ChosenSample), Options{}).People.Corrected; c.Why != "" || c.Halved == 0 || c.Halved > 450 {
		t.Errorf("30 pairs: %+v", *c)
	}
}

// TestHalved: the number of pairs follows from how variances fall, and none is named where none suffices.
func TestHalved(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		pairs, voted int
		sampling     float64
		want         int
	}{
		{100_000, 30, 1, 90}, // a few of very many: four times as many
		{240, 30, 0.75, 210}, // all of them
		{240, 30, 0.74, 0},
		{240, 240, 0, 0},
		{240, 30, 0.9, 81}, // 1 + 7/6 = 2.17 is the weight then: 111 pairs
	} {
		if got := halved(one.pairs, one.voted, one.sampling); got != one.want {
			t.Errorf("%+v: %d", one, got)
		}
	}
}

// TestWorstJudge: a judge is named only if its interval is below those of all others, on the random sample alone.
func TestWorstJudge(t *testing.T) {
	t.Parallel()
	against := func(name string, low, high float64) AgainstPeople {
		j := AgainstPeople{Judge: name, Cohen: (low + high) / 2}
		j.CohenLimits.Low, j.CohenLimits.High = low, high
		return j
	}
	p := &People{Votes: 60, Sample: 60, Judges: []AgainstPeople{against("good", 0.5, 0.8), against("bad", -0.1, 0.2), against("fair", 0.3, 0.6)}}
	if said := p.worstJudge(); !strings.HasPrefix(said, "“bad” agrees with people less than every other judge") {
		t.Error(said)
	}
	p.Judges[2].CohenLimits.Low = 0.1
	if said := p.worstJudge(); said != "" {
		t.Errorf("overlapping intervals: %s", said)
	}
	p.Judges[2].CohenLimits.Low, p.Sample = 0.3, 59
	if said := p.worstJudge(); said != "" {
		t.Errorf("a vote on another pair: %s", said)
	}
}
