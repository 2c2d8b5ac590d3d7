package rank_test

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/evalfleet/evalfleet/eval/rank"
)

// reference is one fit of testdata/reference_values.json.
type reference struct {
	Ref       string             `json:"ref"`
	Ability   map[string]float64 `json:"ability"`
	SE        map[string]float64 `json:"se"`
	Deviance  float64            `json:"deviance"`
	DF        int                `json:"df"`
	Nu        float64            `json:"nu"`
	LogNu     float64            `json:"log_nu"`
	LogNuSE   float64            `json:"log_nu_se"`
	LogLik    float64            `json:"loglik"`
	LogLikRaw float64            `json:"loglik_no_const"`
}

func references(t *testing.T) map[string]reference {
	t.Helper()
	raw, err := os.ReadFile("testdata/reference_values.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]reference
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// table reads first, second, wins of the first, wins of the second[, ties].
func table(t *testing.T, file string) (names []string, tally *rank.Tally) {
	t.Helper()
	f, err := os.Open("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		names = append(names, line[0], line[1])
	}
	slices.Sort(names)
	names = slices.Compact(names)
	tally = rank.NewTally(len(names))
	for _, line := range lines[1:] {
		var counts [3]int
		for k, cell := range line[2:] {
			if counts[k], err = strconv.Atoi(cell); err != nil {
				t.Fatal(err)
			}
		}
		first, second := slices.Index(names, line[0]), slices.Index(names, line[1])
		if err := tally.AddCounts(first, second, rank.Counts{FirstWins: counts[0], SecondWins: counts[1], Ties: counts[2]}); err != nil {
			t.Fatal(err)
		}
	}
	return names, tally
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) { // also for NaN
		t.Errorf("%s: got %.10f, want %.10f", what, got, want)
	}
}

// TestReferenceValues fits published tables and compares with values given to ten
// digits, in their parametrisation: against a reference candidate.
func TestReferenceValues(t *testing.T) {
	t.Parallel()
	const digits = 1e-7
	want := references(t)
	// Two outcomes of three are free in a row of pairs.
	freedom := map[string]int{"springall_davidson": 2*36 - 8 - 1, "pandalm_davidson": 2*10 - 4 - 1}
	for _, tt := range []struct {
		name, file string
		options    rank.Options
	}{
		{"citations", "bt_citations_stigler.csv", rank.Options{}},
		{"baseball", "bt_baseball_1987.csv", rank.Options{}},
		{"baseball_order", "bt_baseball_1987.csv", rank.Options{OrderEffect: true}},
		{"springall_davidson", "bt_springall_1973.csv", rank.Options{}},
		{"springall_halfwin_bt", "bt_springall_1973.csv", rank.Options{Ties: rank.HalfWins}},
		{"heaviness", "bt_heaviness_1977.csv", rank.Options{OrderEffect: true}},
		{"pandalm_davidson", "pandalm_majority.csv", rank.Options{}},
		{"pandalm_halfwin_bt", "pandalm_majority.csv", rank.Options{Ties: rank.HalfWins}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want := want[tt.name]
			names, tally := table(t, tt.file)
			fit, err := rank.BradleyTerry(len(names), []*rank.Tally{tally}, tt.options)
			if err != nil {
				t.Fatal(err)
			}
			judge := fit.Judges[0]
			if judge.Regularised || fit.Components[0].Regularised || len(fit.Components) != 1 {
				t.Errorf("regularised %v %v, components %d, want none and 1", judge.Regularised, fit.Components[0].Regularised, len(fit.Components))
			}
			if fit.Iterations > 9 {
				t.Errorf("%d iterations, want at most 9", fit.Iterations)
			}
			base := slices.Index(names, want.Ref)
			for name, ability := range want.Ability {
				if name == "at.home" {
					near(t, name, judge.Order, ability, digits)
					near(t, name+" error", judge.OrderSE, want.SE[name], digits)
					continue
				}
				got, se, _ := fit.Contrast(slices.Index(names, name), base)
				near(t, name, got, ability, digits)
				near(t, name+" error", se, want.SE[name], digits)
			}
			near(t, "sum of abilities", sum(fit.Abilities), 0, 1e-9)
			if want.Deviance != 0 {
				near(t, "deviance", fit.Deviance, want.Deviance, 1e-6)
			}
			if df := want.DF + freedom[tt.name]; df != 0 && fit.DegreesOfFreedom != df {
				t.Errorf("degrees of freedom: got %d, want %d", fit.DegreesOfFreedom, df)
			}
			if want.LogLik != 0 {
				near(t, "log-likelihood", fit.LogLikelihood, want.LogLik, 1e-6)
			}
			if want.LogLikRaw != 0 {
				near(t, "log-likelihood", fit.LogLikelihood, want.LogLikRaw, 1e-6)
			}
			near(t, "nu", judge.Nu(), want.Nu, digits)
			near(t, "ln nu", judge.LogNu, want.LogNu, digits)
			near(t, "ln nu error", judge.LogNuSE, want.LogNuSE, digits)
		})
	}
}

// TestAgresti compares with the table as printed: worths that sum to 1.
func TestAgresti(t *testing.T) {
	t.Parallel()
	names, tally := table(t, "bt_baseball_1987.csv")
	fit, err := rank.BradleyTerry(len(names), []*rank.Tally{tally}, rank.Options{OrderEffect: true})
	if err != nil {
		t.Fatal(err)
	}
	worths := make([]float64, len(names))
	for i, ability := range fit.Abilities {
		worths[i] = math.Exp(ability)
	}
	total := sum(worths)
	slices.Sort(worths)
	for k, want := range []float64{.044, .088, .137, .157, .164, .190, .220} {
		near(t, "worth", worths[k]/total, want, .0005)
	}
	near(t, "home", fit.Judges[0].Order, .302, .0005)
}

// TestPuddings compares with the six brands of chocolate pudding of Davidson 1970: worths
// that sum to 1 and ν, which agree with the paper, and log-worths above the first brand
// with errors, as the PlackettLuce package prints them (Turner, van Etten, Firth and
// Kosmidis 2020, section 2.1.1, seven steps of an iteration that has not quite ended).
func TestPuddings(t *testing.T) {
	t.Parallel()
	_, tally := table(t, "bt_pudding_1970.csv")
	fit, err := rank.BradleyTerry(6, []*rank.Tally{tally}, rank.Options{})
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, ability := range fit.Abilities {
		total += math.Exp(ability)
	}
	for k, want := range []float64{.1388, .1730, .1617, .1654, .1587, .2024} {
		near(t, "worth", math.Exp(fit.Abilities[k])/total, want, .00006)
	}
	near(t, "nu", fit.Judges[0].Nu(), .7468, .00006)
	near(t, "ln nu error", fit.Judges[0].LogNuSE, .0825, .00006)
	for k, want := range [][2]float64{{.2202, .1872}, {.1530, .1935}, {.1753, .1882}, {.1339, .1927}, {.3771, .1924}} {
		ability, se, _ := fit.Contrast(k+1, 0)
		near(t, "log-worth", ability, want[0], .0002)
		near(t, "its error", se, want[1], .00006)
	}
}

// TestChoix uses the small exact cases of the choix project (MIT), maximum
// likelihood column; a pair is winner, loser.
func TestChoix(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		wins [][2]int
		want []float64
	}{
		{"cycle", [][2]int{{0, 1}, {1, 2}, {2, 0}}, []float64{0, 0, 0}},
		{"cycle and one more", [][2]int{{0, 1}, {0, 1}, {1, 2}, {2, 0}}, []float64{0.419617624, -0.419617624, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tally := rank.NewTally(3)
			for _, win := range tt.wins {
				if err := tally.Add(rank.Comparison{First: win[0], Second: win[1]}); err != nil {
					t.Fatal(err)
				}
			}
			fit, err := rank.BradleyTerry(3, []*rank.Tally{tally}, rank.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range tt.want {
				near(t, "ability", fit.Abilities[i], want, 1e-8)
			}
		})
	}
}

func sum(values []float64) float64 {
	var s float64
	for _, v := range values {
		s += v
	}
	return s
}
