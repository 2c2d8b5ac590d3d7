package show

import (
	"fmt"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Title returns the heading of a call.
func (c Call) Title() string {
	return fmt.Sprintf("%s of %s, attempt %d (%s)", c.Stage, c.Model, c.Attempt, c.ID)
}

// How describes a call, in lines: its time, its waits, its outcome and its usage. Errors, evidence and texts are not
// included.
func (c Call) How() []string {
	if c.Cached {
		return []string{"not made: an identical call was answered before, found " + clock(c.Ended)}
	}
	return []string{
		fmt.Sprintf("asked %s, %s, ended after %s", clock(c.Asked), c.waited(), ShortDuration(c.Ended.Sub(c.Started))),
		strings.Join(append(c.response(), c.used()), ", "),
	}
}

func (c Call) waited() string {
	wait := c.Started.Sub(c.Asked)
	switch {
	case c.Bound != "":
		return fmt.Sprintf("waited %s for %s", ShortDuration(wait), c.Bound)
	case c.BoundBy != "":
		return fmt.Sprintf("waited %s for %s", ShortDuration(wait), ratelimit.WaitedFor(c.BoundBy))
	case wait >= time.Millisecond:
		return fmt.Sprintf("admitted after %s", ShortDuration(wait))
	}
	return "admitted at once"
}

func (c Call) response() []string {
	facts := []string{fmt.Sprintf("status %d", c.Status)}
	if c.Status == 0 {
		facts[0] = "no response"
	}
	if c.Class != "" {
		facts = append(facts, string(c.Class))
	}
	if c.Finish != "" {
		facts = append(facts, "finish "+c.Finish)
	}
	if c.RequestID != "" {
		facts = append(facts, "request "+c.RequestID)
	}
	return facts
}

func (c Call) used() string {
	charged := c.Class == "" || c.MaybeBill
	switch {
	case c.Usage.Reported && c.Usage.CostUSD != nil:
		return fmt.Sprintf("%d tokens in, %d out, %s", c.Usage.Input, c.Usage.Output, ratelimit.USD(*c.Usage.CostUSD))
	case c.Usage.Reported && c.MostUSD != nil:
		return fmt.Sprintf("%d tokens in, %d out reported, at most %s", c.Usage.Input, c.Usage.Output, ratelimit.USD(*c.MostUSD))
	case c.Usage.Reported:
		return fmt.Sprintf("%d tokens in, %d out, cost unknown", c.Usage.Input, c.Usage.Output)
	case charged && c.MostUSD != nil:
		return "possibly charged, at most " + ratelimit.USD(*c.MostUSD)
	case charged:
		return "possibly charged, tokens and cost unknown"
	}
	return "not charged"
}

// Reasoned describes the model's reasoning; empty: none was counted.
func (c Call) Reasoned() string {
	if c.Usage.Reasoning == 0 {
		return ""
	}
	return wording.Counted(int(c.Usage.Reasoning), "token")
}

// Where describes how the messages sent with a call relate to the run's prompt.
func (c Call) Where() string {
	if c.Alone {
		return "instead of"
	}
	return "behind"
}
