package simulator

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

const prose = `The bridge across the river was built by people who expected it to last. They cut the stone in winter, when the farms had no work for them, and they carried it down the hill on sledges. Nobody wrote down how many years this took.

When the railway came, the bridge lost its purpose. Carts no longer needed it, and the village grew towards the station instead. For a long time the only traffic was sheep. The council discussed removing it twice, and twice decided that this would cost more than leaving it alone.

Now walkers come from the city to see it. They take photographs of the middle arch, where the stone has been worn smooth by hands, and they buy lunch in the village. The bridge still carries nothing of importance. It has become important because somebody once built it well.`

// spoil plants one more fault in a text, at the nth place that can have it.
type spoil func(text string, nth int) string

// inWord changes the nth long word.
func inWord(change func(string) string) spoil {
	return func(text string, nth int) string {
		seen := 0
		return regexp.MustCompile(`\pL+`).ReplaceAllStringFunc(text, func(w string) string {
			if len(w) < 6 {
				return w
			}
			if seen++; seen != nth {
				return w
			}
			return change(w)
		})
	}
}

// inText replaces the nth occurrence.
func inText(old, now string) spoil {
	return func(text string, nth int) string {
		parts := strings.SplitN(text, old, nth+1)
		if len(parts) <= nth {
			return text
		}
		return strings.Join(parts[:nth], old) + now + parts[nth]
	}
}

// TestPlantedFaultsLowerQualityStepByStep plants faults of one kind, one after
// the other.
func TestPlantedFaultsLowerQualityStepByStep(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]spoil{
		"a word twice": inWord(func(w string) string { return w + " " + w }),
		"capitals lost": func(text string, _ int) string {
			at := regexp.MustCompile(`\. [A-Z]`).FindStringIndex(text)
			return text[:at[0]] + strings.ToLower(text[at[0]:at[1]]) + text[at[1]:]
		},
		"a space before marks": inText(",", " ,"),
		"no space after marks": inText(", ", ","),
		"a sentence twice":     func(text string, _ int) string { return text + " The bridge still carries nothing of importance." },
		"paragraphs cut short": func(text string, _ int) string { return text + "\n\nNow the mud" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, before := prose, read(prose).quality()
			for n := range 4 {
				spoilt := plant(text, n+1)
				if spoilt == text {
					t.Fatalf("step %d: nothing was planted", n+1)
				}
				after := read(spoilt).quality()
				if after >= before {
					t.Errorf("step %d: quality %.2f, want less than the %.2f before", n+1, after, before)
				}
				text, before = spoilt, after
			}
			for model := range judges {
				if v := judges[model].compare(model, "", text, prose, true); v.winner != 1 && model != "careless" {
					t.Errorf("%s prefers the text with planted faults: %+v", model, v)
				}
			}
		})
	}
}

func TestLengthAloneDoesNotWin(t *testing.T) {
	t.Parallel()
	flawed := strings.Replace(strings.Replace(prose, "its purpose", "its its purpose", 1), "The council", "the council", 1)
	blocks := strings.Split(flawed, "\n\n")
	for name, longer := range map[string]string{
		"clean paragraph twice":   flawed + "\n\n" + blocks[0],
		"spoilt paragraph twice":  flawed + "\n\n" + blocks[1],
		"everything twice":        flawed + "\n\n" + flawed,
		"last sentence six times": flawed + strings.Repeat(" It has become important because somebody once built it well.", 6),
	} {
		if got, want := read(longer).quality(), read(flawed).quality(); got > want {
			t.Errorf("%s: quality %.2f, want at most %.2f", name, got, want)
		}
		for _, model := range []string{"careful", "average"} {
			for _, pair := range [][2]string{{flawed, longer}, {longer, flawed}} {
				if v := judges[model].compare(model, "", pair[0], pair[1], true); pair[v.winner] == longer {
					t.Errorf("%s: %s prefers the longer: %s", name, model, v.reason)
				}
			}
		}
	}
	spoilt := "wrods is is brokne and stuff , brdige are the. and an sentense the it has went ,away\n\n" + blocks[0]
	if once, twice := read(spoilt).quality(), read(spoilt+"\n\n"+blocks[0]).quality(); twice >= once {
		t.Errorf("a clean paragraph said twice in a bad text: quality %.2f, want less than %.2f", twice, once)
	}
	half, whole := read(blocks[0]+"\n\n"+blocks[2]).quality(), read(prose).quality()
	if half != whole {
		t.Errorf("two clean texts of different length: got %.2f and %.2f, want the same", half, whole)
	}
	if got := read("").quality(); got != 0 {
		t.Errorf("no text: got %.2f, want 0", got)
	}
}

func TestTiesOnlyWhereAllowedAndEven(t *testing.T) {
	t.Parallel()
	other := "A short clean text. It says little."
	flawed := strings.Replace(prose, "its purpose", "its its purpose", 1)
	for _, test := range []struct {
		first, second string
		mayTie, tied  bool
	}{
		{prose, other, true, true},
		{prose, other, false, false},
		{prose, flawed, true, false},
	} {
		v := judges["careful"].compare("careful", "", test.first, test.second, test.mayTie)
		if (v.winner == -1) != test.tied || v.reason == "" {
			t.Errorf("may tie %v: got %+v, want a tie: %v", test.mayTie, v, test.tied)
		}
	}
}

// TestOnlyCarelessLooksAtTheOrder shows equally good texts both ways round, where
// nothing but a judge's taste decides.
func TestOnlyCarelessLooksAtTheOrder(t *testing.T) {
	t.Parallel()
	changed := map[string]int{}
	for i := range 50 {
		one, other := prose, fmt.Sprintf("%s It is number %d.", prose, i)
		for model, j := range judges {
			if j.compare(model, "", one, other, false).winner == j.compare(model, "", other, one, false).winner {
				changed[model]++
			}
		}
	}
	if changed["careful"] != 0 || changed["average"] != 0 || changed["careless"] == 0 {
		t.Errorf("verdicts that changed with the order, of 50: got %v, want some of careless only", changed)
	}
}

// TestReliabilityFalls has each judge decide many close pairs, better and worse
// shown first equally often.
func TestReliabilityFalls(t *testing.T) {
	t.Parallel()
	const pairs = 400
	random := rand.New(rand.NewPCG(1, 2))
	right, forFirst := map[string]int{}, map[string]int{}
	for i := range pairs {
		better := fmt.Sprintf("%s It is number %d. the the the the the.", prose, i)
		worse := inWord(func(w string) string { return w + " " + w })(better, 1+random.IntN(12))
		texts := [2]string{better, worse}
		if i%2 == 1 {
			texts = [2]string{worse, better}
		}
		for model, j := range judges {
			v := j.compare(model, "", texts[0], texts[1], false)
			if texts[v.winner] == better {
				right[model]++
			}
			if v.winner == 0 {
				forFirst[model]++
			}
		}
	}
	if right["careful"] <= right["average"] || right["average"] <= right["careless"] || right["careless"] <= pairs/2 {
		t.Errorf("right of %d: got %v, want careful > average > careless > half", pairs, right)
	}
	if right["careful"] < pairs*95/100 {
		t.Errorf("careful: got %d of %d right, want at least 95 in 100", right["careful"], pairs)
	}
	if forFirst["careless"] <= pairs/2+20 || forFirst["careful"] > pairs/2+20 {
		t.Errorf("for the first shown, of %d: got %v, want careless to lean to it and careful not", pairs, forFirst)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(prose)
	f.Add("- a list\n1. of items\n```go\ncode\n```\n# Head\n…\xff'’ i.e. a.")
	f.Fuzz(func(t *testing.T, text string) {
		if q := read(text).quality(); !(q >= 0 && q <= 100) {
			t.Errorf("quality: got %v, want 0 to 100", q)
		}
		parsePrompt([]message{{Role: "user", Content: text}})
		parseSchema(text)
	})
}
