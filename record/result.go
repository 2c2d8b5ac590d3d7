package record

import "time"

// Result says how an evaluation ended. The process that completed its results store leaves
// it in the record, for programs that cannot read that store.
type Result struct {
	At       time.Time `json:"at"`
	Headline string    `json:"headline"` // who won, and how certain that is
	// Elsewhere is set unless a controller has the results: its pages have no report then.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Reliance says whether its judges can be relied on; nil: no judge compared two texts.
	Reliance *Reliance `json:"reliance,omitempty"`
}

// Reliance is a report's line of trust.
type Reliance struct {
	Level string `json:"level"` // unknown, sound, caution or unsound
	Text  string `json:"text"`
}
