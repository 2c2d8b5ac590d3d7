package judgments

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// readArenaHard reads the games of a model against a baseline. The baseline is A in the first game, and the model in
// the second.
func readArenaHard(row Row, o Options) (Read, error) {
	model, baseline := row.text("model"), row.text("baseline")
	if baseline == "" {
		baseline = o.Baseline
	}
	var assumed []string
	if baseline == "" {
		baseline = Unnamed
		assumed = []string{"games name no baseline: it is called " + Unnamed + ", unless --baseline names it"}
	}
	r := Read{Candidates: [2]string{baseline, model}}
	if model == "" {
		return Read{}, wrong("model", "write the model's name", "no name")
	}
	r.ask(row)

	var games []json.RawMessage
	if err := json.Unmarshal(row["games"], &games); err != nil {
		return Read{}, wrong("games", "want a list of games, each with a score such as \"A>>B\"", "this is no list")
	}
	for k, raw := range games {
		v := Verdict{Judge: row.judge(), Reverse: k%2 == 1, At: row.at(), Simplified: assumed}
		if err := v.game(raw); err != nil {
			return Read{}, err
		}
		r.Verdicts = append(r.Verdicts, v)
	}
	if len(games) == 0 {
		r.Verdicts = []Verdict{{Skipped: "rows without a game"}}
	}
	return r, nil
}

// Unnamed is the name of a baseline that neither the rows nor the user names.
const Unnamed = "baseline"

const noScore = "games without a score"

// game reads one game. Its score is about A, which was shown first, and B.
func (v *Verdict) game(raw json.RawMessage) error {
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		v.failed(noScore)
		return nil
	}
	var game struct {
		Score    json.RawMessage `json:"score"`
		Judgment json.RawMessage `json:"judgment"`
	}
	if err := json.Unmarshal(raw, &game); err != nil {
		return wrong("games", "want objects with a score such as \"A>>B\"", "a game is no object")
	}
	label, _ := plain(game.Score)
	if v.Reason, _ = plain(game.Judgment); v.Reason == "" {
		var of struct {
			Answer string `json:"answer"`
		}
		if json.Unmarshal(game.Judgment, &of) == nil {
			v.Reason = of.Answer
		}
	}

	label = strings.Trim(strings.TrimSpace(label), "[]")
	if label == "" {
		v.failed(noScore)
		return nil
	}
	sign := strings.Trim(label, "AB")
	outcome, known := map[string]Outcome{">": First, ">>": First, "<": Second, "<<": Second, "=": Tie}[sign]
	switch {
	case !known || label != "A"+sign+"B" && label != "B"+sign+"A":
		return wrong("games", "want A>>B, A>B, A=B, B>A or B>>A", "score %s", quoted(label))
	case label[0] == 'B':
		outcome = outcome.swapped()
	}
	if len(sign) == 2 {
		v.Simplified = append(slices.Clip(v.Simplified), "verdicts are strong preferences (>>), which count as one win")
	}
	if v.Reverse { // A is the second candidate
		outcome = outcome.swapped()
	}
	v.Outcome, v.ByName = outcome, outcome
	return nil
}

// readMTBench reads a pair that was judged in both orders, or the score of a single answer.
func readMTBench(row Row) (Read, error) {
	if row["g1_winner"] == nil {
		return readScore(row)
	}
	r, err := pairRow(row)
	if err != nil {
		return Read{}, err
	}

	for k, game := range []string{"g1", "g2"} {
		v := Verdict{Judge: row.judge(), Reverse: k == 1, Reason: row.text(game + "_judgment"), At: row.at()}
		switch word := row.text(game + "_winner"); word {
		case "model_1":
			v.Outcome = First
		case "model_2":
			v.Outcome = Second
		case "tie":
			v.Outcome = Tie
		case "error", "":
			v.failed("games that the judge gave no verdict on (error)")
		default:
			return Read{}, wrong(game+"_winner", "want model_1, model_2, tie or error", "%s", quoted(word))
		}
		v.ByName = v.Outcome
		r.Verdicts = append(r.Verdicts, v)
	}
	return r, nil
}

func readScore(row Row) (Read, error) {
	r := Read{Candidates: [2]string{row.text("model")}}
	if r.Candidates[0] == "" {
		return Read{}, wrong("model", "write the model's name", "no name")
	}
	r.ask(row)
	r.Score = &Score{Judge: row.judge(), Reason: row.reason(), At: row.at()}
	word := strings.TrimSpace(row.text("score"))
	value, err := strconv.ParseFloat(word, 64)
	switch {
	case word == "" || value == -1 || math.IsNaN(value):
		r.Score.Skipped = "answers without a score"
	case err != nil || math.IsInf(value, 0):
		return Read{}, wrong("score", "want a number", "%s", quoted(word))
	}
	r.Score.Value = value
	return r, nil
}

// readAlpaca reads an annotation. Its preference is 1 for the first output, 2 for the second, and between them if the
// annotator weighs its answer: 1 more than the probability that the second is better. 1.5, and in older files 0, are ties.
func readAlpaca(row Row) (Read, error) {
	r, err := pairRow(row)
	if err != nil {
		return Read{}, err
	}

	v := Verdict{Judge: row.judge(), Reason: row.reason(), At: row.at()}
	word := strings.TrimSpace(row.text("preference"))
	preference, err := strconv.ParseFloat(word, 64)
	switch {
	case word == "" || math.IsNaN(preference):
		v.failed("annotations without a preference")
	case err != nil || preference != 0 && (preference < 1 || preference > 2):
		return Read{}, wrong("preference", "want a number from 1 (the first output) to 2 (the second)", "%s", quoted(word))
	case preference == 0 || preference == 1.5:
		v.Outcome = Tie
	case preference < 1.5:
		v.Outcome = First
	default:
		v.Outcome = Second
	}

	if v.Outcome != None && preference >= 1 {
		share := 2 - preference
		v.Share = &share
	}
	if v.Outcome != None && v.Outcome != Tie && preference != 1 && preference != 2 {
		v.Simplified = append(v.Simplified, "preferences are weighted: the weighted win rate has them, and the ranking counts "+
			"the output that they are nearer to")
	}
	v.ByName = v.Outcome
	r.Verdicts = []Verdict{v}
	return r, nil
}

// readOwn reads a line of verdicts.csv, or of pairwise_results.csv or its JSON Lines.
func readOwn(row Row) (Read, error) {
	r := Read{Candidates: [2]string{row.text("candidate_1"), row.text("candidate_2")}}
	documents := [2]string{row.text("doc_id_1"), row.text("doc_id_2")}
	for k := range documents {
		if documents[k] == "" {
			return Read{}, wrong("doc_id_"+strconv.Itoa(k+1), "write the document's id", "no document")
		}
		if r.Candidates[k] == "" {
			r.Candidates[k] = documents[k]
		}
	}
	r.ask(row)

	v := Verdict{Judge: row.judge(), Reason: row.reason(), At: row.at()}
	if v.Judge == "" {
		v.Judge = row.text("model")
	}
	var err error
	if v.Outcome, err = ownOutcome(row, documents); err != nil {
		return Read{}, err
	}
	by := row.text("answered_by")
	switch {
	case row.text("by") == "person":
		v.Skipped = "votes of people, which were not shown in an order: rank votes.csv"
	case by == "" && row["answered_by"] != nil:
		v.Unasked = true
	case by != "" && by != row.text("model"):
		v.Skipped = "verdicts that a fallback model gave in a judge's place"
	}
	v.ByName = v.Outcome
	r.Verdicts = []Verdict{v}
	return r, nil
}

// ownOutcome returns which document a line of this program's own tables prefers.
func ownOutcome(row Row, documents [2]string) (Outcome, error) {
	field, words, want := "winner_doc_id", documents, "doc_id_1, doc_id_2"
	if row["result"] != nil {
		field, words, want = "result", [2]string{"first", "second"}, "first, second"
	}
	switch winner := row.text(field); winner {
	case words[0]:
		return First, nil
	case words[1]:
		return Second, nil
	case "tie":
		return Tie, nil
	default:
		return None, wrong(field, "want "+want+" or tie", "%s is neither document", quoted(winner))
	}
}
