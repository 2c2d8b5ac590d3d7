package record

import (
	"strings"
	"time"
)

// Result says how an evaluation ended. The process that completed its results store writes it to
// the record, for programs that cannot read that store.
type Result struct {
	At       time.Time `json:"at"`
	Headline string    `json:"headline"` // who won, and how certain that is
	// Elsewhere is set unless a controller has the results. The controller's pages show no report
	// then.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Reliance says how reliable the judges are; nil: no judge compared two texts.
	Reliance *Reliance `json:"reliance,omitempty"`
}

// Reliance is the line of a report on how far to trust the judges.
type Reliance struct {
	Level string `json:"level"` // unknown, sound, caution or unsound
	Text  string `json:"text"`
}

// Line returns the level in words, followed by the text, such as "Caution. Check some verdicts first: …".
func (r *Reliance) Line() string {
	if r.Level == "" {
		return r.Text
	}
	return strings.ToUpper(r.Level[:1]) + r.Level[1:] + ". " + r.Text
}
