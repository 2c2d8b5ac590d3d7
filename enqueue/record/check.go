package record

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
)

// Bounds on what a record may contain. They are wider than anything evalfleet writes, and narrow
// enough that no sum or product of them overflows.
const (
	// LongestTime is the longest delay, wait or timeout.
	LongestTime = 365 * 24 * time.Hour
	// MostRuns is the highest number of runs of a phase. Their states take one byte each.
	MostRuns = 1 << 33

	longestName  = 4096  // bytes of a name, an id or a queue
	mostRetries  = 1e6   // of a fallback
	mostPhases   = 10000 // rounds of swiss included
	mostGrouping = 1e6   // entries of a list or map in the settings

	greatestScore = 1e6 // either end of a scale
	greatestPrice = 1e6 // USD per million tokens
	greatestBound = 1e9 // USD, the most that a call may cost
)

// lastTime is the latest time that JSON can express.
var lastTime = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// Check reports values that evalfleet never writes; a record with one must not be worked on.
// enqueue.Read checks whether the record fits its plan.
func (e Evaluation) Check() error {
	if !e.ID.Valid() {
		return fmt.Errorf("%.80q is not an evaluation id", e.ID)
	}
	if err := e.Status.Check(); err != nil {
		return err
	}
	if !plain(e.Name) {
		return fmt.Errorf("its name %.40q is too long or has control characters", e.Name)
	}
	if e.Created.Before(time.Unix(0, 0)) || e.Created.After(lastTime) {
		return errors.New("its time of creation is invalid")
	}
	if err := e.Settings.check(e.ID); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	if len(e.Phases) > mostPhases {
		return fmt.Errorf("too many phases: %d", len(e.Phases))
	}

	for i, phase := range e.Phases {
		if err := phase.check(e.ID); err != nil {
			return fmt.Errorf("phase %d: %w", i, err)
		}
	}

	return nil
}

// Check reports a status that this program does not know.
func (s Status) Check() error {
	switch s {
	case StatusActive, StatusPaused, StatusCancelled, StatusDone:
		return nil
	}
	return fmt.Errorf("unknown status %.40q", string(s))
}

// plain reports whether text is a name: short, valid, and without control characters.
func plain(text string) bool {
	return len(text) <= longestName && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

func (p Phase) check(id eval.ID) error {
	if !p.Kind.Known() {
		return fmt.Errorf("unknown kind %.40q", p.Kind)
	}
	if p.Runs < 0 || p.Runs > MostRuns {
		return fmt.Errorf("invalid number of runs: %d", p.Runs)
	}
	sum := 0
	for queue, runs := range p.Queues {
		if runs < 0 || runs > p.Runs-sum {
			return fmt.Errorf("queue %.80q has %d of %d runs", queue, runs, p.Runs)
		}
		sum += runs
		if err := checkQueue(queue, id); err != nil {
			return err
		}
	}
	for _, queue := range p.JudgeQueues {
		if err := checkQueue(queue, id); err != nil {
			return err
		}
	}
	return nil
}

// checkQueue reports a queue that cannot belong to evaluation id: a name that no version has given,
// or a queue of another evaluation alone.
func checkQueue(queue string, id eval.ID) error {
	if queue == "" || !plain(queue) || strings.ContainsAny(queue, "/{} ") {
		return fmt.Errorf("%.80q is not a queue", queue)
	}
	if owner := OwnerOfQueue(queue); owner != "" && owner != id {
		return fmt.Errorf("queue %.80q belongs to another evaluation", queue)
	}
	return nil
}

func (s Settings) check(id eval.ID) error {
	switch {
	case s.Priority < 0 || s.Priority > math.MaxInt32:
		return fmt.Errorf("invalid priority %d", s.Priority)
	case s.Limit < 0 || s.Limit > MostRuns:
		return fmt.Errorf("invalid limit on runs: %d", s.Limit)
	case len(s.Limits) > mostGrouping || len(s.Prices) > mostGrouping || len(s.Timeouts) > mostGrouping:
		return errors.New("too many limits, prices or timeouts")
	}

	for _, limit := range s.Limits {
		if err := limit.Validate(); err != nil {
			return err
		}
		if of := limit.Evaluation; of != "" && of != string(id) {
			return fmt.Errorf("a limit applies to another evaluation: %.80q", of)
		}
	}

	for target, price := range s.Prices {
		if err := checkPrice(price); err != nil {
			return fmt.Errorf("price of %.80q: %w", target, err)
		}
	}

	for of, timeout := range s.Timeouts {
		if timeout <= 0 || timeout > LongestTime {
			return fmt.Errorf("timeout of %.80q: invalid length %s", of, timeout)
		}
	}

	if err := s.Retry.check(); err != nil {
		return err
	}
	if err := s.Until.check(); err != nil {
		return err
	}
	return s.Fallback.check()
}

func (r Retry) check() error {
	if r.MaxAttempts < 0 || r.MaxAttempts > math.MaxInt32 {
		return fmt.Errorf("invalid number of attempts: %d", r.MaxAttempts)
	}
	for _, delay := range []time.Duration{r.InitialDelay, r.MaxDelay, r.Jitter} {
		if delay < 0 || delay > LongestTime {
			return fmt.Errorf("invalid delay between attempts: %s", delay)
		}
	}
	return nil
}

func (f *Fallback) check() error {
	switch {
	case f == nil:
		return nil
	case f.MaxRetries < 0 || f.MaxRetries > mostRetries || f.Base < 0 || f.Base > mostRetries || len(f.Models) > mostGrouping:
		return fmt.Errorf("invalid fallback: %d retries, base %g, %d models", f.MaxRetries, f.Base, len(f.Models))
	case len(f.Overrides) > len(f.Models):
		return fmt.Errorf("invalid fallback: overrides of %d models, of which there are %d", len(f.Overrides), len(f.Models))
	case f.MaxWait < 0 || f.MaxWait > LongestTime || f.After429 < 0 || f.After429 > LongestTime:
		return fmt.Errorf("invalid fallback: waits of %s and %s", f.MaxWait, f.After429)
	}
	return nil
}

// Check reports counts that no run can have.
func (f Fallen) Check() error {
	for _, n := range []int{f.Asked, f.Waits, f.Refused, f.Spent, f.RateLimitWaits, f.RateLimitFallbacks, f.ContextFallbacks} {
		if n < 0 || n > math.MaxInt32 {
			return fmt.Errorf("invalid number of waits or calls: %d", n)
		}
	}
	return nil
}

// checkPrice reports prices with which the cost of a call cannot be computed.
func checkPrice(p providers.Price) error {
	usd := []float64{p.Input, p.Output, p.Search}
	rates := []*providers.Rates{&p.Rates}
	if p.Long != nil {
		usd, rates = append(usd, p.Long.Input, p.Long.Output), append(rates, &p.Long.Rates)
	}
	for _, r := range rates {
		for _, rate := range []*float64{r.CachedInput, r.CacheWrite} {
			if rate != nil {
				usd = append(usd, *rate)
			}
		}
	}
	for _, factor := range p.Tiers {
		usd = append(usd, factor)
	}
	for _, amount := range usd {
		if !(amount >= 0 && amount <= greatestPrice) { // also refuses NaN
			return fmt.Errorf("invalid amount %g", amount)
		}
	}
	return nil
}

// Check reports values that evalfleet never writes; a results entry with one must not be stored.
func (e Entry) Check() error {
	if e.Run == nil && len(e.Calls) == 0 && e.Job == nil {
		return errors.New("it is empty")
	}
	if e.Run != nil {
		if err := e.Run.check(); err != nil {
			return fmt.Errorf("run: %w", err)
		}
	}
	for _, call := range e.Calls {
		if err := call.check(); err != nil {
			return fmt.Errorf("call: %w", err)
		}
	}
	if e.Job != nil {
		if err := e.Job.Call.check(); err != nil {
			return fmt.Errorf("job: %w", err)
		}
	}
	return nil
}

func (r *Run) check() error {
	if err := checkPlace(r.Phase, r.Index, r.Generation); err != nil {
		return err
	}
	shown := 1
	switch {
	case !r.Kind.Known():
		return fmt.Errorf("unknown kind %.40q", r.Kind)
	case r.Kind == eval.KindPairwise, r.Kind == eval.KindRuns:
		shown = 2
	}

	state, ok := eval.ParseState(r.State)
	switch {
	case !ok || state == eval.StateNone:
		return fmt.Errorf("unknown state %.40q", r.State)
	case len(r.Documents) != shown || len(r.Candidates) != shown:
		return fmt.Errorf("a run of kind %s names %d documents and %d candidates, want %d", r.Kind, len(r.Documents), len(r.Candidates), shown)
	case r.Attempts < 0 || r.Attempts > math.MaxInt32 || r.Trial < 0 || r.Trial > math.MaxInt32:
		return fmt.Errorf("invalid numbers of attempts and trials: %d, %d", r.Attempts, r.Trial)
	case r.Kind == eval.KindPairwise && state == eval.StateSucceeded:
		if err := r.checkPair(); err != nil {
			return err
		}
	case r.Degree != 0 || len(r.Criteria) > 0 || r.Chances != nil:
		return errors.New("verdicts by criterion, degree or probability of a run that compared nothing")
	}

	for _, score := range r.Scores {
		if !(math.Abs(score.Score) <= greatestScore) {
			return fmt.Errorf("invalid score %g", score.Score)
		}
	}

	return nil
}

// checkPair reports a winner that is not one of the run's documents, an invalid degree, and invalid probabilities.
func (r Run) checkPair() error {
	if r.Chances != nil {
		if err := r.Chances.Check(); err != nil {
			return err
		}
	}
	if len(r.Criteria) > mostGrouping {
		return fmt.Errorf("%d verdicts by criterion", len(r.Criteria))
	}
	for _, p := range append([]Preference{{Winner: r.Winner, Degree: r.Degree}}, r.Criteria...) {
		if p.Winner != eval.Tie && !slices.Contains(r.Documents, p.Winner) {
			return fmt.Errorf("the winner %.80q is not one of its documents", p.Winner)
		}
		if p.Degree < 0 || p.Degree > eval.MaxDegrees || p.Winner == eval.Tie && p.Degree > 0 {
			return fmt.Errorf("the winner %.80q has the degree %d", p.Winner, p.Degree)
		}
	}
	return nil
}

func checkPlace(phase, index, generation int) error {
	if phase < 0 || phase >= mostPhases || index < 0 || index >= MostRuns || generation < 0 || generation > MaxGeneration {
		return fmt.Errorf("no run has phase %d, index %d and generation %d", phase, index, generation)
	}
	return nil
}

func (c Call) check() error {
	if err := checkPlace(c.Phase, c.Index, c.Generation); err != nil {
		return err
	}
	if c.ID == "" || !plain(c.ID) {
		return fmt.Errorf("invalid id %.80q", c.ID)
	}
	if c.Attempt < 0 || c.Attempt > math.MaxInt32 {
		return fmt.Errorf("invalid attempt %d", c.Attempt)
	}
	if !plain(c.Named) {
		return fmt.Errorf("its model's name %.40q is too long or has control characters", c.Named)
	}
	if err := c.Usage.Check(); err != nil {
		return err
	}
	if c.MostUSD != nil && !(*c.MostUSD >= 0 && *c.MostUSD <= greatestBound) {
		return fmt.Errorf("invalid cost %g USD", *c.MostUSD)
	}
	if c.Price != nil {
		return checkPrice(*c.Price)
	}
	return nil
}
