package record

import "time"

// Result says how an evaluation ended. The process that completed its results store leaves
// it in the record, for programs that cannot read that store.
type Result struct {
	At       time.Time `json:"at"`
	Headline string    `json:"headline"` // who won, and how certain that is
	// Elsewhere is set unless a controller has the results: its pages have no report then.
	Elsewhere bool `json:"elsewhere,omitempty"`
}
