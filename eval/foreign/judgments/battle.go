package judgments

import (
	"maps"
	"slices"
	"strings"
)

// Words for the first candidate, the second, and a tie, as normal writes them. Numbers are codes: see codes.
var (
	firstWords  = []string{"model_a", "a", "model_1", "candidate_a", "candidate_1", "response_a", "assistant_a", "output_1", "left", "first"}
	secondWords = []string{"model_b", "b", "model_2", "candidate_b", "candidate_2", "response_b", "assistant_b", "output_2", "right", "second"}
	tieWords    = []string{"tie", "draw", "equal", "same", "both", "both_good", "-"}
	badWords    = []string{"tie_bothbad", "tie_both_bad", "both_bad", "bothbad", "neither"}
)

var positions = func() map[string]Outcome {
	all := map[string]Outcome{}
	for outcome, words := range map[Outcome][]string{First: firstWords, Second: secondWords, Tie: slices.Concat(tieWords, badWords)} {
		for _, word := range words {
			all[word] = outcome
		}
	}
	return all
}()

// codes are the numbers of the votes of this program: 0 is a tie, 1 the first candidate, 2 the second.
var codes = map[string]Outcome{"0": Tie, "1": First, "2": Second}

const winnerFix = "want model_a, model_b, tie, or the name of one of the two"

// normal returns a word without the spelling differences between tools: "tie (bothbad)" is "tie_bothbad".
func normal(word string) string {
	word = strings.ToLower(strings.TrimSpace(word))
	if strings.Trim(word, "-") == "" {
		return word
	}
	return strings.Trim(strings.NewReplacer(" ", "_", "-", "_", "(", "", ")", "", "[", "", "]", "").Replace(word), "_")
}

// failed records that the judge was asked and gave no verdict, and why.
func (v *Verdict) failed(why string) { v.Skipped, v.Failed = why, true }

// readBattle reads two candidates and a winner.
func readBattle(row Row) (Read, error) {
	r, err := pairRow(row)
	if err != nil {
		return Read{}, err
	}
	v := Verdict{Judge: row.judge(), Reason: row.reason(), At: row.at()}
	field := winnerOf(row)
	switch field {
	case "":
		return Read{}, wrong("winner", "add a column winner: model_a, model_b or tie", "the field is missing")
	case "winner_model_a":
		err = v.oneHot(row)
	default:
		err = v.named(row, field, r.Candidates)
	}
	r.Verdicts = []Verdict{v}
	return r, err
}

// pairRow reads everything of a row of two candidates but the verdict.
func pairRow(row Row) (Read, error) {
	first, second, ok := pairOf(row)
	if !ok {
		return Read{}, wrong("", "want the columns model_a, model_b and winner", "the two candidates are missing")
	}
	var r Read
	for k, name := range []string{first, second} {
		if r.Candidates[k] = row.text(name); r.Candidates[k] == "" {
			return Read{}, wrong(name, "write the candidate's name", "no name")
		}
	}
	r.ask(row)
	r.answer(row)
	return r, nil
}

// named reads a winner that is written as a word: a position, a tie, or the name or document of a candidate.
func (v *Verdict) named(row Row, field string, candidates [2]string) error {
	word, ok := plain(row[field])
	word = strings.TrimSpace(word)
	if !ok && row[field] != nil && row[field][0] != 'n' {
		return wrong(field, winnerFix, "the value is not a text")
	}
	if word == "" || strings.EqualFold(word, "nan") {
		v.failed("rows without a winner")
		return nil
	}

	code := strings.TrimSuffix(word, ".0") // as programs write a column of numbers with gaps
	if v.Outcome = codes[code]; v.Outcome != None {
		v.Code = code
	} else {
		v.Outcome = positions[normal(word)]
	}
	if slices.Contains(badWords, normal(word)) {
		v.Simplified = append(v.Simplified, "ties say that both are bad, which counts as a tie")
	}

	if v.Outcome == Tie {
		v.ByName = Tie
	}
	documents := [2]string{row.text("doc_id_1"), row.text("doc_id_2")}
	for k, outcome := range []Outcome{First, Second} {
		if candidates[k] == word || documents[k] == word {
			v.ByName = outcome
		}
	}
	if v.ByName == None && v.Outcome == None {
		return wrong(field, winnerFix, "%s is neither candidate", quoted(word))
	}
	return nil
}

// oneHot reads a winner from three columns, of which one is 1.
func (v *Verdict) oneHot(row Row) error {
	for _, one := range []struct {
		field   string
		outcome Outcome
	}{{"winner_model_a", First}, {"winner_model_b", Second}, {"winner_tie", Tie}, {"winner_tie_bothbad", Tie}} {
		switch word := strings.ToLower(strings.TrimSuffix(row.text(one.field), ".0")); word {
		case "1", "true":
			if v.Outcome != None {
				return wrong(one.field, "set one of the three to 1, the others to 0", "there is another winner")
			}
			v.Outcome = one.outcome
		case "", "0", "false":
		default:
			return wrong(one.field, "want 1 or 0; predictions are not verdicts", "%s", quoted(word))
		}
	}
	v.ByName = v.Outcome
	if v.Outcome == None {
		v.failed("rows without a winner")
	}
	return nil
}

// votesColumns are the columns of a file of votes that are not people.
var votesColumns = []string{"item", "candidate_a", "candidate_b", "question", "category"}

// readVotes reads votes with a column for each person. An empty cell is no vote.
func readVotes(row Row) (Read, error) {
	r, err := pairRow(row)
	if err != nil {
		return Read{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(row)) {
		word := strings.TrimSpace(row.text(name))
		if slices.Contains(votesColumns, name) || word == "" {
			continue
		}
		v := Verdict{Judge: name}
		if err := v.named(row, name, r.Candidates); err != nil {
			return Read{}, wrong(name, "want 0 or tie, 1 or a, 2 or b; or a column winner, with the name in a column annotator",
				"%s is no vote", quoted(word))
		}
		v.Code = "" // what the numbers mean is settled
		r.Verdicts = append(r.Verdicts, v)
	}
	if len(r.Verdicts) == 0 {
		r.Verdicts = []Verdict{{Skipped: "rows without a vote"}}
	}
	return r, nil
}
