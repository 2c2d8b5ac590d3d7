package prompto

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
)

// Outcome says how the prompt of a line ended.
type Outcome struct {
	Provider string    // that was asked
	Sent     time.Time // in the time zone in which it is written
	Answer   string
	Answers  []string // of several turns, or several to one; nil: Answer is the only one
	Attempts int
	Failed   bool // there is no answer, but Class (providers.Class) and Error
	Class    string
	Error    string
	// Ratings holds the ratings of the calls that answered, one for each turn; nil if the line has none.
	Ratings []Ratings
}

// Complete adds the outcome to a line, as in the file of completed prompts.
func Complete(line Line, o Outcome) Line {
	line.Set("timestamp_sent", Quoted(Stamp(o.Sent)))
	line.Set("response", o.response())
	if safety := o.safety(line); safety != nil {
		line.Set("safety_attributes", safety)
	}
	if o.Failed {
		line.Set("error", Quoted(fmt.Sprintf("%s: %s", o.Class, o.Error)))
	}
	return line
}

// response returns the value of the answer field: the answer, a list of answers, or an explanation of why there is
// none.
func (o Outcome) response() json.RawMessage {
	switch {
	case o.Failed:
		return Quoted(o.Failure())
	case o.Answers == nil:
		return Quoted(o.Answer)
	}
	list := bytes.NewBufferString("[")
	for i, answer := range o.Answers {
		if i > 0 {
			list.WriteString(", ")
		}
		appendQuoted(list, answer)
	}
	list.WriteByte(']')
	return list.Bytes()
}

// exceptions maps classes of failures (providers.Class) to the corresponding exceptions of OpenAI's Python library.
var exceptions = map[string]string{
	"rate_limited": "RateLimitError", "quota_daily": "RateLimitError", "quota_billing": "RateLimitError",
	"overloaded": "InternalServerError", "transient": "APIError", "timeout": "APITimeoutError",
	"context_length": "BadRequestError", "bad_request": "BadRequestError", "refused": "BadRequestError",
	"auth": "AuthenticationError", "model_unavailable": "NotFoundError",
}

// Failure returns the text that replaces a missing answer. Programs that read such files recognise its two forms: an
// error of the line itself, and a failed call.
func (o Outcome) Failure() string {
	name := cmp.Or(exceptions[o.Class], "Exception")
	switch {
	case o.Attempts == 0:
		return "TypeError - " + o.Error
	case o.Provider == "test" && o.Class == "bad_request":
		return "ValueError - " + o.Error
	case o.Provider == "test":
		name = "Exception"
	}
	return fmt.Sprintf("An unexpected error occurred when querying the API: (%s - %s) after maximum %d attempts", name, o.Error, o.Attempts)
}

// Ratings holds what Google says about the safety of an answer.
type Ratings struct {
	All    []Rating
	Finish string // providers.Finish, or the provider's word
}

// Rating is the rating of one category of harm.
type Rating struct {
	Category, Probability string
	Blocked               bool
}

// rated holds the APIs whose lines have the field safety_attributes.
var rated = map[string]bool{"gemini": true, "vertexai": true}

// probabilities maps Google's words to numbers, which prompto writes as text.
var probabilities = map[string]string{"HARM_PROBABILITY_UNSPECIFIED": "0", "NEGLIGIBLE": "1", "LOW": "2", "MEDIUM": "3", "HIGH": "4"}

// finishReasons maps providers.Finish to Google's words, for answers that can be used.
var finishReasons = map[string]string{"stop": "STOP", "truncated": "MAX_TOKENS"}

// Rated returns how many of the last calls have ratings, for an answered line. This is one for each of several turns,
// otherwise one, and 0 if the line's API has no ratings.
func (o Outcome) Rated(line Line) int {
	var api string
	_ = json.Unmarshal(line.Get("api"), &api)
	if !rated[api] {
		return 0
	}
	if turns, several := o.turns(line); several {
		return turns
	}
	return 1
}

// turns returns how many turns a prompt has. several says whether it is a list of turns with several answers.
func (o Outcome) turns(line Line) (n int, several bool) {
	var turns []string
	several = o.Answers != nil && json.Unmarshal(line.Get("prompt"), &turns) == nil
	return len(turns), several
}

// safety returns the value of safety_attributes: an object or, for a prompt of several turns, a list with one object
// for each turn. It returns nil without ratings.
func (o Outcome) safety(line Line) json.RawMessage {
	if len(o.Ratings) == 0 {
		return nil
	}
	all := make([]string, len(o.Ratings))
	for i, call := range o.Ratings {
		all[i] = call.attributes()
	}
	if _, several := o.turns(line); several {
		return json.RawMessage("[" + strings.Join(all, ", ") + "]")
	}
	return json.RawMessage(all[0])
}

// attributes formats a call's ratings as JSON. It lists the probability of each category, whether each blocked the
// answer (as Python prints a list), and how the answer ended.
func (r Ratings) attributes() string {
	var out strings.Builder
	blocked := make([]string, len(r.All))
	for i, rating := range r.All {
		fmt.Fprintf(&out, "%s: %s, ", Quoted(rating.Category), Quoted(cmp.Or(probabilities[rating.Probability], rating.Probability)))
		word := strconv.FormatBool(rating.Blocked)
		blocked[i] = strings.ToUpper(word[:1]) + word[1:]
	}
	fmt.Fprintf(&out, "%s: %s, ", Quoted("blocked"), Quoted("["+strings.Join(blocked, ", ")+"]"))
	fmt.Fprintf(&out, "%s: %s", Quoted("finish_reason"), Quoted(cmp.Or(finishReasons[r.Finish], r.Finish)))
	return "{" + out.String() + "}"
}

// Stamp formats a time as file names and lines contain it.
func Stamp(t time.Time) string { return t.Format("02-01-2006-15-04-05") }

// The kinds of files of an experiment.
const (
	InputFile     = "input"
	LogFile       = "log"
	CompletedFile = "completed"
)

// OutputFolder returns the folder of an experiment's files within the data folder, with slashes.
func OutputFolder(experiment string) string { return path.Join("output", eval.FileName(experiment)) }

// FileName returns the name of an experiment's file of a kind. created is when the experiment started, in the time
// zone in which it is written.
func FileName(created time.Time, kind, experiment, ending string) string {
	return fmt.Sprintf("%s-%s-%s%s", Stamp(created), kind, eval.FileName(experiment), ending)
}

// LogFailed returns the log line about a failed prompt; index counts from 0.
func (o Outcome) LogFailed(at time.Time, index int, id string) string {
	return logLine(at, "Error (i=%d, id=%s): %s", index+1, id, o.Failure())
}

// LogEnded returns the last line of the log. ended is how many of all prompts have ended.
func LogEnded(at time.Time, experiment string, ended, all int, took time.Duration) string {
	words := "Completed experiment"
	if ended < all {
		words = fmt.Sprintf("So far %d of %d prompts of experiment", ended, all)
	}
	return logLine(at, "%s: %s! Experiment processing time: %.3f seconds, Average time per query: %.3f seconds",
		words, experiment, took.Seconds(), took.Seconds()/float64(max(ended, 1)))
}

func logLine(at time.Time, format string, args ...any) string {
	words := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	return at.Format("02-01-2006, 15:04") + ": " + words + "\n"
}
