package given

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/evalfleet/evalfleet/internal/report"
)

// TestPublishedWeightedWinRates: the preferences of alpaca_eval's public annotations give its published weighted win rates,
// which are in the file, as far as the ten digits of each preference can tell.
func TestPublishedWeightedWinRates(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../eval/verdict/testdata/alpaca_eval.csv")
	if err != nil {
		t.Fatal(err)
	}
	in := csv.NewReader(bytes.NewReader(raw))
	in.Comment = '#'
	rows, err := in.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for model, published := range map[string]float64{
		"NullModel": 0.7691979180386511, "OpenHermes-2.5-Mistral-7B": 0.10340415705751552, "Qwen-14B-Chat": 0.07502333484720497,
	} {
		var lines []string
		for k, row := range rows {
			if row[0] == model {
				lines = append(lines, fmt.Sprintf(`{"instruction":"instruction %d","output_1":"x","output_2":"y","generator_1":"gpt4_1106_preview",`+
					`"generator_2":%q,"annotator":"weighted_alpaca_eval_gpt4_turbo","preference":%s}`, k, model, row[3]))
			}
		}
		r := reported(t, Options{NoTexts: true}, report.Options{}, file(t, "annotations.jsonl", lines...))
		if r.Soft == nil || r.Soft.Soft != 805 || r.Soft.Hard != 0 || len(r.Groups) != 1 {
			t.Fatalf("%s: %+v", model, r.Soft)
		}
		for _, c := range r.Groups[0].Ranked {
			want := published
			if c.Name != model {
				want = 1 - published
			}
			if c.Soft == nil || math.Abs(c.Soft.Rate-want) > 1e-11 {
				t.Errorf("%s: got %+v, published %.17g", c.Name, c.Soft, want)
			}
			if !(c.Soft.Low < want && want < c.Soft.High) {
				t.Errorf("%s: limits %+v", c.Name, c.Soft)
			}
		}
	}
}

// TestWeightedPreferences: probabilities belong to their candidate, in whatever column and order of documents it is; files
// without any are not soft.
func TestWeightedPreferences(t *testing.T) {
	t.Parallel()
	row := func(item int, first, second string, preference float64) string {
		return fmt.Sprintf(`{"instruction":"i%d","generator_1":%q,"generator_2":%q,"annotator":"a","preference":%g}`, item, first, second, preference)
	}
	lines := []string{
		row(1, "x", "y", 1.2), row(2, "y", "x", 1.8), row(3, "x", "y", 1), row(4, "y", "x", 1.5), row(5, "x", "y", 1.75), row(6, "x", "y", 0),
	}
	want := (0.8 + 0.8 + 1 + 0.5 + 0.25 + 0.5) / 6
	for _, order := range []string{"", OrderShown} {
		r := reported(t, Options{Order: order}, report.Options{}, file(t, "annotations.jsonl", lines...))
		if r.Soft == nil || r.Soft.Soft != 5 || r.Soft.Hard != 1 {
			t.Fatalf("%+v", r.Soft)
		}
		for _, c := range r.Groups[0].Ranked {
			if at := map[string]float64{"x": want, "y": 1 - want}[c.Name]; math.Abs(c.Soft.Rate-at) > 1e-12 {
				t.Errorf("%s: got %g, want %g", c.Name, c.Soft.Rate, at)
			}
		}
	}

	_, soft := stored(t, Options{}, file(t, "annotations.jsonl", lines...))
	_, other := stored(t, Options{}, file(t, "annotations.jsonl", append([]string{row(1, "x", "y", 1.3)}, lines[1:]...)...))
	if soft.Evaluation.ID() == other.Evaluation.ID() {
		t.Error("other probabilities have the same id")
	}
	plain := reported(t, Options{}, report.Options{}, file(t, "annotations.jsonl", row(1, "x", "y", 1), row(2, "x", "y", 2)))
	if plain.Soft != nil || plain.Evaluation.Plan.Pairwise.Soft || plain.Groups[0].Ranked[0].Soft != nil {
		t.Errorf("verdicts without probabilities are soft: %+v", plain.Soft)
	}
}
