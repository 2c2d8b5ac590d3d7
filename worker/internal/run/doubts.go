package run

import (
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/eval"
)

// Doubts finds out which refusals may concern a single run, although the provider says that it would refuse any. The
// zero value knows nothing. It is safe for concurrent use.
type Doubts struct {
	mu       sync.Mutex
	of       map[asked]doubt
	answered map[string]bool // models that have answered, by target
}

// asked identifies a provider that an evaluation calls.
type asked struct {
	evaluation eval.ID
	provider   string
}

// doubt is the last refusal of a provider without an answer since, and its circumstances.
type doubt struct {
	run     eval.RunID
	at      time.Time // zero: none
	times   int       // how often in a row that run was refused
	flying  int       // calls in flight here
	accused map[eval.RunID]bool
	// believed: no single run is to blame, and the provider is not paused yet.
	believed bool
}

// doubtTime is how long a refusal counts as evidence against the provider: a person may have acted since.
const doubtTime = time.Minute

// Calls records that a call begins, and returns a function to call when it has ended.
func (d *Doubts) Calls(id eval.ID, provider string) (ended func()) {
	at := asked{id, provider}
	d.change(at, func(now *doubt) { now.flying++ })
	return func() { d.change(at, func(now *doubt) { now.flying-- }) }
}

// Paused records that a provider was paused for an evaluation. Once it is resumed, another pause needs new evidence.
func (d *Doubts) Paused(id eval.ID, provider string) {
	d.change(asked{id, provider}, func(now *doubt) { now.believed = false })
}

// Answered records that a model answered a call of an evaluation.
func (d *Doubts) Answered(id eval.ID, target eval.Judge) {
	d.change(asked{id, target.Provider}, func(now *doubt) { now.at, now.believed = time.Time{}, false })
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.answered == nil {
		d.answered = map[string]bool{}
	}
	d.answered[target.Target()] = true
}

// HasAnswered reports whether a model has answered any call of this worker.
func (d *Doubts) HasAnswered(target eval.Judge) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.answered[target.Target()]
}

// loneRefusals is how often in a row the same run is refused, with no other in flight, before the provider is believed:
// others may only be slow to start.
const loneRefusals = 3

// Refused records that a provider refused a run, before the end of its call is recorded. alone reports whether the
// refusal may concern only this run: no other was refused shortly before without an answer since. guilty reports
// whether it does: others were answered since the run was last refused. Until the pause that follows is recorded, no
// other refusal is taken for a run's own, because its slot would be free for a call that the pause must prevent.
func (d *Doubts) Refused(id eval.ID, provider string, refused eval.RunID) (alone, guilty bool) {
	d.change(asked{id, provider}, func(now *doubt) {
		if now.believed {
			return
		}
		first := now.at.IsZero() || time.Since(now.at) > doubtTime
		guilty = now.at.IsZero() && now.accused[refused]
		if first || now.run != refused {
			now.times = 0
		}
		now.times++
		alone = first || now.run == refused && (now.flying > 1 || now.times < loneRefusals)

		now.run, now.at = refused, time.Now()
		if now.accused == nil {
			now.accused = map[eval.RunID]bool{}
		}
		now.accused[refused] = true
		if guilty {
			delete(now.accused, refused)
		}
		if guilty || !alone {
			now.at = time.Time{}
		}
		if !alone {
			now.accused, now.believed = nil, true
		}
	})
	return alone, guilty
}

func (d *Doubts) change(at asked, how func(*doubt)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.of[at]
	how(&now)
	if d.of == nil {
		d.of = map[asked]doubt{}
	}
	if d.of[at] = now; now.flying == 0 && now.at.IsZero() && !now.believed && len(now.accused) == 0 {
		delete(d.of, at)
	}
}
