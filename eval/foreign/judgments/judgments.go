// Package judgments reads verdicts that other tools, people, or earlier evaluations have given: battles of two models
// with a winner, arena-hard and MT-bench judgments, alpaca_eval annotations, exports of AutoArena, and the files of
// this program.
//
// It reads single rows: it opens no files, and does not know where in a file a row is. Package given reads the files,
// and decides what no single row can tell.
package judgments

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Format says how the rows of a file are written.
type Format string

// The formats.
const (
	Battles    Format = "battles"     // two candidates and a winner
	Arena      Format = "arena"       // battles and human preferences of the Chatbot Arena
	ArenaHard  Format = "arena-hard"  // games against a baseline, in both orders
	AlpacaEval Format = "alpaca-eval" // annotations with a preference from 1 to 2
	MTBench    Format = "mt-bench"    // pairs in both orders, or scores of single answers
	AutoArena  Format = "autoarena"   // head-to-head exports
	Votes      Format = "votes"       // people's votes, with a column for each person
	Evalfleet  Format = "evalfleet"   // verdicts.csv, or pairwise_results.csv and its JSON Lines
)

// Formats lists all formats.
var Formats = []Format{Battles, Arena, ArenaHard, AlpacaEval, MTBench, AutoArena, Votes, Evalfleet}

// Row holds the fields of a row by name, as JSON. The cells of a table are JSON texts.
type Row map[string]json.RawMessage

// Outcome says which of two candidates a verdict prefers.
type Outcome int8

// The outcomes. None means that there is no verdict.
const (
	None Outcome = iota
	First
	Second
	Tie
)

// swapped returns the outcome for the candidates in the other order.
func (o Outcome) swapped() Outcome {
	switch o {
	case First:
		return Second
	case Second:
		return First
	}
	return o
}

// Read is what one row says about two candidates, or about one if it has a score.
type Read struct {
	Item       string // empty: the row names none
	Question   string
	Categories []string
	Candidates [2]string
	Texts      [2]*string // of the candidates' answers; nil: not in the row
	Verdicts   []Verdict
	Score      *Score // nil: verdicts
}

// Verdict is one verdict on the candidates of a row.
type Verdict struct {
	Judge string // empty: the row names none
	// Reverse means that the second candidate was shown first, if the format tells.
	Reverse bool
	// Outcome is about the candidates as the row lists them. ByName is the outcome if a word is the name of a candidate,
	// and Outcome if it is a position; None if the word has no such meaning. Formats with fixed words set both.
	Outcome, ByName Outcome
	// Share is the probability that the row's first candidate is better, of an annotator that weighs; nil: it does not.
	Share      *float64
	Code       string // the number that stands for the outcome; empty: a word
	Unasked    bool   // a tie of identical texts, without a judge
	Reason     string
	At         time.Time // zero: unknown
	Skipped    string    // why there is no verdict; empty: there is one
	Failed     bool      // a judge was asked and gave no verdict, as Skipped says
	Simplified []string  // what of the row is not kept, or was assumed
}

// Score is a judge's score of one answer; the row's first candidate.
type Score struct {
	Judge   string
	Value   float64
	Reason  string
	At      time.Time
	Skipped string
}

// Options are what a user says about a file.
type Options struct {
	Baseline string // candidate that arena-hard's games were played against, if rows do not name it
}

// Recognise returns the format of rows with these fields; empty: none.
func Recognise(row Row) Format {
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(name string) bool { _, ok := row[name]; return !ok })
	}
	_, _, pair := pairOf(row)
	switch {
	case has("games", "model"):
		return ArenaHard
	case has("g1_winner", "g2_winner", "model_1", "model_2"):
		return MTBench
	case has("doc_id_1", "doc_id_2") && (has("winner_doc_id") || has("result")) && !has("candidate_a"):
		return Evalfleet
	case has("generator_1", "generator_2", "preference"):
		return AlpacaEval
	case pair && winnerOf(row) == "" && has("candidate_a", "candidate_b", "item"):
		return Votes
	case pair:
		return battleFormat(row, has)
	case has("model", "score"):
		return MTBench
	}
	return ""
}

// battleFormat tells the Chatbot Arena's battles, whose first model was shown on the left, from those of others.
func battleFormat(row Row, has func(...string) bool) Format {
	switch {
	case has("winner_model_a"), has("conversation_a"), has("model_a", "tstamp"), has("model_a", "anony"):
		return Arena
	case has("prompt", "model_a", "model_b", "response_a", "response_b", "winner") && len(row) <= 7:
		return AutoArena
	}
	return Battles
}

// Shown reports whether a format tells which text was shown first.
func (f Format) Shown() bool {
	return f == Arena || f == ArenaHard || f == MTBench || f == Evalfleet
}

// ReadRow reads one row. The error is written for the owner of the file.
func (f Format) ReadRow(row Row, o Options) (Read, error) {
	switch f {
	case ArenaHard:
		return readArenaHard(row, o)
	case MTBench:
		return readMTBench(row)
	case AlpacaEval:
		return readAlpaca(row)
	case Votes:
		return readVotes(row)
	case Evalfleet:
		return readOwn(row)
	}
	return readBattle(row)
}

// Error is a row that cannot be read: what is wrong with which field, and what to write instead.
type Error struct {
	Field, Message, Fix string
}

func (e *Error) Error() string {
	text := e.Message
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	if e.Fix != "" {
		text += "; " + e.Fix
	}
	return text
}

func wrong(field, fix, format string, args ...any) error {
	return &Error{Field: field, Message: fmt.Sprintf(format, args...), Fix: fix}
}

// quoted returns a value for messages, cut to a readable length.
func quoted(value string) string {
	const most = 40
	if runes := []rune(value); len(runes) > most {
		value = string(runes[:most]) + "…"
	}
	return fmt.Sprintf("%q", strings.ToValidUTF8(value, "�"))
}
