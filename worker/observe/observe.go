// Package observe defines what a worker reports to its observers about its runs.
//
// It changes nothing. A worker works the same with and without observers.
package observe

import (
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// Observer is a set of functions that a worker calls, as in httptrace.ClientTrace. Each may be nil; what no function
// asks for is not collected. They are called from many goroutines at once and must not block.
type Observer struct {
	// Event receives the events of every run.
	Event func(Event)
	// Call receives every call that was made, when it has ended.
	Call func(record.Call)
	// Handled receives every run that the worker handled, when it lets go of it.
	Handled func(Handled)
	// Wait receives every wait that a run makes instead of asking another model
	// (record.Tally.RateLimitWaits).
	Wait func(target eval.Judge)
	// Reserved receives the reservation of token limits for each call whose usage the provider
	// has reported.
	Reserved func(Reserved)
	// Begun receives calls before they are sent.
	Begun func(Begun)
	// Spending receives the maximum cost of calls before they are sent, and how much less they cost once that is known.
	Spending func(Spending)
	// Stopping receives, when the worker begins to stop, the number of calls in flight and their grace period.
	Stopping func(inFlight int, grace time.Duration)
}

// Begun is a call that is about to be sent.
type Begun struct {
	Call   string // "evaluation.call", as in results.Reader.CallsBegun
	Target string // "provider:model", or "account:model": openai/eu:gpt-5
	At     time.Time
}

// Spending is the increase of what an evaluation has spent and reserved.
type Spending struct {
	Evaluation eval.ID
	Nano       int64 // nano-USD
}

// Reserved is the reservation of a call, in tokens.
type Reserved struct {
	Provider, Model string
	Input, Output   int64
}

// Join returns one observer that calls several.
func Join(observers ...Observer) Observer {
	var all Observer
	for _, o := range observers {
		all.Event = both(all.Event, o.Event)
		all.Call = both(all.Call, o.Call)
		all.Handled = both(all.Handled, o.Handled)
		all.Wait = both(all.Wait, o.Wait)
		all.Reserved = both(all.Reserved, o.Reserved)
		all.Begun = both(all.Begun, o.Begun)
		all.Spending = both(all.Spending, o.Spending)
		if before, then := all.Stopping, o.Stopping; before == nil {
			all.Stopping = then
		} else if then != nil {
			all.Stopping = func(inFlight int, grace time.Duration) {
				before(inFlight, grace)
				then(inFlight, grace)
			}
		}
	}
	return all
}

// both calls two functions; either may be nil.
func both[T any](first, second func(T)) func(T) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(what T) {
		first(what)
		second(what)
	}
}

// Complete returns the observer with missing functions replaced by functions that do nothing. Event and Handled stay
// nil, because their data is only made for a listener.
func (o Observer) Complete() Observer {
	return Join(o, Observer{
		Call: func(record.Call) {}, Wait: func(eval.Judge) {}, Reserved: func(Reserved) {},
		Begun: func(Begun) {}, Spending: func(Spending) {}, Stopping: func(int, time.Duration) {},
	})
}
