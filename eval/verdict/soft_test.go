package verdict

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
)

// token returns a token with alternatives, given as texts and probabilities.
func token(text string, p float64, others ...any) Token {
	t := Token{Alternative: Alternative{text, math.Log(p)}}
	t.Top = append(t.Top, t.Alternative)
	for k := 0; k < len(others); k += 2 {
		t.Top = append(t.Top, Alternative{others[k].(string), math.Log(others[k+1].(float64))})
	}
	return t
}

func TestSoftVerdicts(t *testing.T) {
	t.Parallel()
	after := []Token{token(`","`, 1), token(`reason`, 1), token(`":"r"}`, 1)}
	before := []Token{token(`{"`, 1), token(`winner`, 1), token(`_doc_id`, 0.9)}
	answer := func(middle ...Token) []Token {
		return append(append(append([]Token{}, before...), middle...), after...)
	}
	colon := token(`":"`, 0.999)
	nan := Token{Alternative: Alternative{"A", math.NaN()}}
	for _, test := range []struct {
		name          string
		tokens        []Token
		first, second string
		ties          bool
		won           string
		want          eval.Chances
		hard          bool
	}{
		{name: "one token each", tokens: answer(colon, token("A", 0.6, "B", 0.2, "The", 0.2)), want: eval.Chances{First: 0.75, Second: 0.25}},
		{name: "a tie", tokens: answer(colon, token("B", 0.5, "A", 0.3, "t", 0.1, "tie", 0.1)), ties: true, won: "B",
			want: eval.Chances{First: 0.3, Tie: 0.2, Second: 0.5}},
		{name: "not asked for a tie", tokens: answer(colon, token("B", 0.5, "A", 0.3, "tie", 0.2)), won: "B", want: eval.Chances{First: 0.375, Second: 0.625}},
		{name: "an improbable label is said", tokens: answer(colon, token("B", 0.2, "A", 0.8)), won: "B", want: eval.Chances{First: 0.8, Second: 0.2}},
		{name: "the quote joins the label", tokens: answer(token(`":`, 1), token(`"A`, 0.6, ` "B`, 0.2, ` "A`, 0.1, `A`, 0.1)),
			want: eval.Chances{First: 0.7 / 0.9, Second: 0.2 / 0.9}},
		{name: "the quote joins the label, and may stand alone", tokens: answer(token(`":`, 1), token(`"A`, 0.6, `"B`, 0.2, `"`, 0.2)), hard: true},
		{name: "labels join what follows", tokens: append(append([]Token{}, append(before, colon)...), token(`A",`, 0.6, `B",`, 0.3, `B`, 0.1), token(`"reason":"r"}`, 1)),
			want: eval.Chances{First: 0.6, Second: 0.4}},
		{name: "names of several tokens", first: "q1/gpt-4", second: "q1/gpt-4o", won: "q1/gpt-4",
			tokens: append(append([]Token{}, append(before, colon)...), token("q1", 1), token("/gpt", 0.9, "gpt", 0.1), token("-4", 1), token(`","`, 0.6, "o", 0.4),
				token(`reason":"r"}`, 1)),
			want: eval.Chances{First: 0.6, Second: 0.4}},
		{name: "names that part early", first: "alpha", second: "beta", won: "beta",
			tokens: answer(colon, token("be", 0.5, "al", 0.25, "alpha", 0.25), token("ta", 1)), want: eval.Chances{First: 0.5, Second: 0.5}},
		{name: "a name that begins with a shared token that is not said", first: "model-a", second: "model-b", won: "model-a",
			tokens: answer(colon, token("model-a", 0.6, "model", 0.4)), hard: true},
		{name: "case counts", tokens: answer(colon, token("A", 0.6, "a", 0.2, "B", 0.2)), want: eval.Chances{First: 0.75, Second: 0.25}},
		{name: "a label has no probability, and hardly any is left", tokens: answer(colon, token("A", 0.995, "The", 0.004)), want: eval.Chances{First: 1}},
		{name: "a label has no probability that is known", tokens: answer(colon, token("A", 0.9)), hard: true},
		{name: "something else was more probable", tokens: answer(colon, token("A", 0.3, "B", 0.1, "Neither", 0.6)), hard: true},
		{name: "the same token many times", tokens: answer(colon, token("A", 0.5, "B", 0.5, "B", 0.5, "B", 0.5)), want: eval.Chances{First: 0.5, Second: 0.5}},
		{name: "more than there is", tokens: answer(colon, token("A", 0.9, "B", 0.9)), hard: true},
		{name: "above 1", tokens: answer(colon, token("A", 2, "B", 0.1)), hard: true},
		{name: "no number", tokens: answer(colon, nan), hard: true},
		{name: "no number beside it", tokens: answer(colon, token("A", 0.9, "B", math.NaN())), hard: true},
		{name: "other tokens than the text's", tokens: answer(colon, token("B", 0.9, "A", 0.1)), hard: true},
		{name: "no tokens", hard: true},
		{name: "thoughts before it", tokens: append([]Token{token(`Is it {"winner_doc_id":"B"}? `, 1)}, answer(colon, token("A", 0.9, "B", 0.1))...),
			want: eval.Chances{First: 0.9, Second: 0.1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			first, second, won := "A", "B", "A"
			if test.first != "" {
				first, second = test.first, test.second
			}
			if test.won != "" {
				won = test.won
			}
			question := &eval.Pairwise{Ties: test.ties}
			text := `{"winner_doc_id":"` + won + `","reason":"r"}`
			said, err := Pairwise(text, first, second, question)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := Soft(text+"\n", test.tokens, first, second, question, said)
			if ok == test.hard {
				t.Fatalf("got %+v, %v", got, ok)
			}
			if !ok {
				return
			}
			if err := got.Check(); err != nil {
				t.Error(err)
			}
			if math.Abs(got.First-test.want.First) > 1e-9 || math.Abs(got.Tie-test.want.Tie) > 1e-9 || math.Abs(got.Second-test.want.Second) > 1e-9 {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestSoftVerdictsOfTexts: what is read beside JSON alone, and what names the winner twice.
func TestSoftVerdictsOfTexts(t *testing.T) {
	t.Parallel()
	tokensOf := func(text string) (all []Token) {
		for k, part := range strings.SplitAfter(text, `: "`) {
			if k > 0 {
				all = append(all, token(part[:1], 0.8, "A", 0.8, "B", 0.2))
				part = part[1:]
			}
			all = append(all, token(part, 1))
		}
		return all
	}
	for text, soft := range map[string]bool{
		"I prefer the one.\n```json\n{\"reason\":\"r\", \"winner_doc_id\": \"A\"}\n```":          true,
		`{"winner_doc_id": "A","reason":"r"} or again {"winner_doc_id": "A","reason":"because"}`: false,
	} {
		said, err := Pairwise(text, "A", "B", &eval.Pairwise{})
		if err != nil {
			t.Fatal(err)
		}
		got, ok := Soft(text, tokensOf(text), "A", "B", &eval.Pairwise{}, said)
		if ok != soft || ok && math.Abs(got.First-0.8) > 1e-9 {
			t.Errorf("%s: got %+v, %v", text, got, ok)
		}
	}
}

// TestAlpacaEval: the log probabilities of alpaca_eval's public annotations give the preferences recorded there, whose mean
// is the published weighted win rate, as far as the ten digits that are recorded of each can tell. An annotation does not
// tell whether m or M was generator_2, which was drawn: one of the two must give its preference.
func TestAlpacaEval(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/alpaca_eval.csv")
	if err != nil {
		t.Fatal(err)
	}
	in := csv.NewReader(bytes.NewReader(raw))
	in.Comment = '#'
	rows, err := in.ReadAll()
	if err != nil {
		t.Fatal(err)
	}

	sums, counts, soft := map[string]float64{}, map[string]float64{}, 0
	for _, row := range rows[1:] {
		preference, err := strconv.ParseFloat(row[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		sums[row[0]] += preference - 1
		counts[row[0]]++
		if row[1] == "" {
			continue
		}
		lower, _ := strconv.ParseFloat(row[1], 64)
		upper, _ := strconv.ParseFloat(row[2], 64)
		said := Token{Alternative{"m", lower}, []Alternative{{"m", lower}, {"M", upper}}}
		p, ok := spread([]Token{said}, 0, []string{"m\n", "M\n"}, 0)
		if !ok || min(math.Abs(1+p[0]-preference), math.Abs(1+p[1]-preference)) > 1e-10 {
			t.Errorf("%v: got %v, %v", row, p, ok)
		}
		soft++
	}
	if soft != 3*805-7 {
		t.Errorf("%d annotations with log probabilities", soft)
	}
	for model, published := range map[string]float64{
		"NullModel": 76.91979180386511, "OpenHermes-2.5-Mistral-7B": 10.340415705751552, "Qwen-14B-Chat": 7.502333484720497,
	} {
		if got := 100 * sums[model] / counts[model]; math.Abs(got-published) > 1e-9 || counts[model] != 805 {
			t.Errorf("%s: %.15g from %g annotations, published %.15g", model, got, counts[model], published)
		}
	}
}

// FuzzSoft: whatever tokens a server sends, the result are probabilities, or none.
func FuzzSoft(f *testing.F) {
	f.Add(`{"winner_doc_id":"A","reason":"r"}`, "A", -0.1, "B", -2.3)
	f.Add(`{"winner_doc_id":"A","reason":"r"}`, `"A`, 0.0, ` "`, -1.0)
	f.Fuzz(func(t *testing.T, text, at string, p float64, other string, q float64) {
		question := &eval.Pairwise{Ties: true}
		said, err := Pairwise(text, "A", "B", question)
		if err != nil {
			return
		}
		var tokens []Token
		for k, part := range strings.Split(text, at) {
			if k > 0 {
				tokens = append(tokens, Token{Alternative{at, p}, []Alternative{{other, q}, {"B", q}, {"tie", p}}})
			}
			tokens = append(tokens, Token{Alternative: Alternative{part, p}})
		}
		if got, ok := Soft(text, tokens, "A", "B", question, said); ok && got.Check() != nil {
			t.Errorf("%+v: %v", got, got.Check())
		}
	})
}
