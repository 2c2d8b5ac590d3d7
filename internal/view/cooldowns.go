package view

import (
	"fmt"
	"time"

	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/internal/view/show"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Cooldown is a scope whose calls are in cooldown, because its provider reported too many requests. The cooldown
// ratelimit.MemoryID holds back all calls while Redis may not know those in flight.
type Cooldown struct {
	ID    string  `json:"limit"`
	Words string  `json:"words"`
	Why   string  `json:"why"`
	NextS float64 `json:"next_s"` // until calls may start
	Probe bool    `json:"probe"`  // one call was let through, and the others wait for its outcome
	// Parked: a day's quota is used up, and the calls wait until it is reset.
	Parked bool `json:"parked,omitempty"`
	// Outage: the provider answers no calls; the next calls are probes.
	Outage bool `json:"outage,omitempty"`
	// Worker is the only worker with the trouble; empty: every worker's calls wait.
	Worker string `json:"worker,omitempty"`
	// Class and Message say how the last call failed, and ForS for how long no call has been answered. Empty: that was
	// not reported.
	Class   string  `json:"class,omitempty"`
	Message string  `json:"message,omitempty"`
	ForS    float64 `json:"for_s,omitempty"`
}

// Trouble returns how calls fail, in words; empty: that was not reported.
func (v Cooldown) Trouble() string {
	if v.Class == "" {
		return ""
	}
	return harmless.OneLine(fmt.Sprintf("no answer for %s, the last call failed with %s: %s",
		show.ShortDuration(Seconds(v.ForS)), v.Class, wording.Clip(v.Message, troubleRunes)))
}

// troubleRunes is how many characters of a provider's message fit into a line.
const troubleRunes = 160

func newCooldown(c ratelimit.Cooldown) Cooldown {
	v := Cooldown{
		ID: c.ID, Words: c.String(), Why: c.Why(), NextS: c.Wait.Seconds(), Probe: c.Probe, Parked: c.Parked, Outage: c.Outage, Worker: c.Worker,
	}
	if c.Trouble != nil {
		v.Class, v.Message, v.ForS = c.Trouble.Class, c.Trouble.Message, c.Trouble.For.Seconds()
	}
	return v
}

// Text returns the cooldown as one line of text.
func (v Cooldown) Text(now time.Time) string {
	switch {
	case v.Class != "" && v.Parked:
		return v.Words + " " + Until(now, Seconds(v.NextS)) + ", " + v.Trouble()
	case v.Class != "" && v.Worker == "" && v.NextS > 0:
		return v.Words + ", " + v.Trouble() + "; next try in " + show.ShortDuration(Seconds(v.NextS))
	case v.Class != "":
		return v.Words + ", " + v.Trouble()
	case v.Parked:
		return v.Words + " " + Until(now, Seconds(v.NextS))
	case v.ID == ratelimit.MemoryID:
		return v.Words + ", " + show.ShortDuration(Seconds(v.NextS)) + " left"
	}
	return v.Words
}

// Cooldowns returns those cooldowns in all that hold back calls under a limit of the same scope for which kept returns
// true, and the cooldown ratelimit.MemoryID.
func Cooldowns(all []ratelimit.Cooldown, kept func(ratelimit.Limit) bool) []Cooldown {
	var views []Cooldown
	for _, c := range all {
		scope, ok := c.Scope()
		if ok && kept(ratelimit.Limit{Scope: scope}) || c.ID == ratelimit.MemoryID {
			views = append(views, newCooldown(c))
		}
	}
	return views
}
