package simulator

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// batchWindow is how long a batch may take if its model's Behaviour does not say so.
const batchWindow = 24 * time.Hour

// batch is a set of requests that are answered without their client, for half of the price. Their answers are ready one
// after another, at even intervals, and can be had once the batch has ended.
type batch struct {
	id        string
	name      string            // the client's
	metadata  map[string]string // the client's
	input     string            // ID of the file of requests
	model     string
	behaviour Behaviour
	luck      string
	tasks     []*task // in the order in which they end
	settled   int     // how many of them have ended
	tokens    int     // input tokens of all tasks
	created   time.Time
	lasts     time.Duration
	// refused says why the batch ended before it began; nil: it did not.
	refused   *batchProblem
	cancelled time.Time // when a client asked for it; zero: never
	ended     time.Time // zero: not yet
}

// batchProblem is the reason for which a whole batch is refused.
type batchProblem struct {
	code, message string
	line          int // of its file; 0: none
}

// task is one request of a batch.
type task struct {
	id    string
	call  *call
	wrong error // the request is invalid
	fate  taskFate
	// unnamed: the client gave no ID.
	unnamed bool
	times   *promptCount // of its prompt; nil: the request is invalid
}

// taskFate is what became of a task.
type taskFate int

const (
	waiting taskFate = iota
	taskAnswered
	taskFailed
	taskExpired
	taskCancelled
)

// batches are those that clients can ask for, in the order in which they were created.
type batches struct {
	all   []*batch
	files map[string]*file
}

// draw returns the batch's random number in [0, 1) for one purpose.
func (b *batch) draw(purpose string) float64 { return unit(hashOf(purpose, b.luck)) }

// ask is a request to a batch, before it is accepted. wrong says why it is invalid.
type ask struct {
	id    string
	req   *request
	wrong error
	// unnamed: the client gave no ID.
	unnamed bool
}

// openBatch accepts a batch, or returns the limit that refuses it. late says that the vendor finds that out only after it
// has answered: the batch then exists, and has failed.
func (s *Simulator) openBatch(prefix string, asks []ask, late bool) (*batch, *refusal) {
	texts := make([]string, len(asks))
	for i, a := range asks {
		if a.wrong == nil {
			texts[i] = answer(cmp.Or(s.behaviour(a.req.model).Serves, a.req.model), a.req.messages, a.req.schema)
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.settleBatches(now)
	model := asks[0].req.model
	b := &batch{model: model, behaviour: s.behaviour(model), created: now}
	b.luck = fmt.Sprint(s.config.Seed, len(s.batches.all))
	b.id = fmt.Sprintf("%s%016x", prefix, hashOf("batch", b.luck))
	b.lasts = b.behaviour.BatchTime.at(b.draw("batch time"))
	known := s.models[model]
	if known == nil {
		return b, &refusal{unknown: model}
	}
	for _, a := range asks {
		b.tokens += a.req.inputTokens()
	}

	for _, scope := range []*scope{s.all, known} {
		if most := scope.mostEnqueued; most > 0 && scope.batched.Enqueued+b.tokens > most {
			s.all.batched.Refused++
			known.batched.Refused++
			refused := &refusal{
				limit: "enqueued tokens", counted: inBatches, message: fmt.Sprintf(
					"Enqueued token limit reached for %s in organization org-simulated. Limit: %d enqueued tokens. Please try again once some "+
						"in_progress batches have been completed.", model, most),
			}
			if late {
				b.refused = &batchProblem{code: "token_limit_exceeded", message: refused.message}
				s.batches.all = append(s.batches.all, b)
			}
			return b, refused
		}
	}

	for i, a := range asks {
		t := &task{id: a.id, call: &call{req: a.req, behaviour: b.behaviour, batched: true}, wrong: a.wrong, unnamed: a.unnamed}
		if a.wrong == nil {
			t.times = s.meet(t.call, known, texts[i])
		}
		b.tasks = append(b.tasks, t)
	}
	slices.SortFunc(b.tasks, func(x, y *task) int { // in any order but that of the requests
		return cmp.Compare(hashOf(b.luck, x.id), hashOf(b.luck, y.id))
	})
	for _, scope := range []*scope{s.all, known} {
		scope.batched.Submitted++
		scope.batched.Requests += int64(len(b.tasks))
		scope.enqueue(b.tokens)
	}
	s.batches.all = append(s.batches.all, b)
	return b, nil
}

// enqueue adds to the tokens in batches that have not ended.
func (s *scope) enqueue(tokens int) {
	s.batched.Enqueued += tokens
	s.batched.MostEnqueued = max(s.batched.MostEnqueued, s.batched.Enqueued)
}

// settleBatches counts what has ended by now in each batch.
func (s *Simulator) settleBatches(now time.Time) {
	for _, b := range s.batches.all {
		s.settleBatch(b, now)
	}
}

func (s *Simulator) settleBatch(b *batch, now time.Time) {
	if !b.ended.IsZero() {
		return
	}
	until, ends := b.window()
	for b.settled < len(b.tasks) && !b.due(b.settled).After(until) && !b.due(b.settled).After(now) {
		s.endTask(b, b.tasks[b.settled], b.tasks[b.settled].planned())
		b.settled++
	}
	if now.Before(ends) {
		return
	}

	for ; b.settled < len(b.tasks); b.settled++ {
		fate := taskExpired
		if !b.cancelled.IsZero() {
			fate = taskCancelled
		}
		s.endTask(b, b.tasks[b.settled], fate)
	}
	b.ended = ends
	if b.refused == nil {
		for _, scope := range []*scope{s.all, s.models[b.model]} {
			scope.enqueue(-b.tokens)
			scope.batched.Ended++
		}
	}
}

// window returns until when tasks are answered, and when the batch ends. A cancelled batch takes a while to end.
func (b *batch) window() (until, ends time.Time) {
	expires := b.expires()
	ends = b.created.Add(b.lasts)
	if b.refused != nil {
		ends = b.created.Add(min(b.lasts/8, 100*time.Millisecond))
	}
	if ends.After(expires) {
		ends = expires
	}
	if until = ends; !b.cancelled.IsZero() {
		return b.cancelled, b.cancelled.Add(b.lasts / 8)
	}
	return until, ends
}

// expires returns when the batch ends at the latest.
func (b *batch) expires() time.Time {
	if own := b.behaviour.BatchWindow.Min; own > 0 {
		return b.created.Add(own)
	}
	return b.created.Add(batchWindow)
}

// due returns when the i-th task ends.
func (b *batch) due(i int) time.Time {
	return b.created.Add(time.Duration(float64(b.lasts) * float64(i+1) / float64(len(b.tasks))))
}

// planned returns how the task ends if the batch lasts long enough.
func (t *task) planned() taskFate {
	switch {
	case t.wrong != nil, t.call.plan.fate == failing:
		return taskFailed
	case t.call.plan.fate == hanging, t.call.draw("batch expire") < t.call.behaviour.BatchExpireRate:
		return taskExpired
	}
	return taskAnswered
}

// endTask counts what became of a task. Only answers are charged.
func (s *Simulator) endTask(b *batch, t *task, fate taskFate) {
	t.fate = fate
	known := s.models[b.model]
	if fate == taskAnswered {
		t.times.taken++
	}
	for _, scope := range []*scope{s.all, known} {
		switch fate {
		case taskAnswered:
			scope.batched.Answered++
			scope.counts.used.input += t.call.spends.input
			scope.counts.used.output += t.call.spends.output
			scope.counts.charged += t.call.charge()
		case taskFailed:
			scope.batched.Failed++
		case taskExpired:
			scope.batched.Expired++
		case taskCancelled:
			scope.batched.Cancelled++
		}
	}
}

// has reports whether a task of the batch ended in this way.
func (b *batch) has(fate taskFate) bool { return b.count(fate) > 0 }

func (b *batch) count(fates ...taskFate) (n int) {
	for _, t := range b.tasks {
		if slices.Contains(fates, t.fate) {
			n++
		}
	}
	return n
}

// cancelBatch asks for the end of a batch. It returns false if the batch has ended, or was asked before.
func (s *Simulator) cancelBatch(b *batch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.settleBatch(b, now)
	if !b.ended.IsZero() || !b.cancelled.IsZero() || b.refused != nil {
		return false
	}
	b.cancelled = now
	for _, scope := range []*scope{s.all, s.models[b.model]} {
		scope.batched.CancelRequests++
	}
	return true
}

// batchOf returns the batch with the ID, and whether it has ended, from when on it does not change; nil: there is none.
func (s *Simulator) batchOf(id string) (b *batch, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.batches.all {
		if b.id != id {
			continue
		}
		if b.draw("lose") < b.behaviour.LoseRate {
			return nil, false
		}
		if known := s.models[b.model]; known != nil {
			s.all.batched.Polled++
			known.batched.Polled++
		}
		s.settleBatch(b, time.Now())
		return b, !b.ended.IsZero()
	}
	return nil, false
}

// shown returns what a client sees of a batch now.
func (s *Simulator) shown(b *batch, object func(b *batch, now time.Time) map[string]any) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return object(b, time.Now())
}

// listBatches returns one page of the batches with an ID's prefix, the newest first, that follow the one with the ID
// after, and whether there are more.
func (s *Simulator) listBatches(prefix, after string, limit int) (page []*batch, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.settleBatches(now)
	begun := after == ""
	for _, b := range slices.Backward(s.batches.all) {
		switch {
		case !strings.HasPrefix(b.id, prefix), now.Sub(b.created) < b.behaviour.BatchListDelay.Min:
		case !begun:
			begun = b.id == after
		case len(page) == limit:
			return page, true
		default:
			page = append(page, b)
		}
	}
	return page, false
}

// admitsBatches checks the key of a request about batches. If it is false, it has answered with an error.
func (s *Simulator) admitsBatches(d dialect, w http.ResponseWriter, r *http.Request) bool {
	stray := &call{req: &request{}}
	d.head(w.Header(), stray)
	if wrong := s.checkKey(d, r.Header); wrong != "" {
		fail(d, w.Header(), stray, problem{failure: wrong}).send(w)
		return false
	}
	return true
}

// refuse answers with an error about a batch.
func refuse(d dialect, w http.ResponseWriter, p problem) {
	fail(d, w.Header(), &call{req: &request{}}, p).send(w)
}

// tellBatch answers with a new batch. By chance, the client does not get its whole ID.
func tellBatch(w http.ResponseWriter, r *http.Request, b *batch, object any) {
	answer := reply{status: http.StatusOK, body: []byte(encode(object))}
	if b.draw("cut") < b.behaviour.CutRate {
		_ = answer.begin(r.Context(), w, len(answer.body)/2+len(answer.body)/4)
		panic(http.ErrAbortHandler)
	}
	answer.send(w)
}

// reply returns the body of the answer to a task, with its status.
func (t *task) reply(d dialect) (status int, body any) {
	switch {
	case t.fate == taskAnswered:
		return http.StatusOK, d.answer(t.call)
	case t.wrong != nil:
		return d.problem(t.call, problem{failure: BadRequest, message: t.wrong.Error()})
	case t.call.plan.problem.failure == Garbage: // a batch has no place for it
		return d.problem(t.call, problem{failure: ServerError})
	}
	return d.problem(t.call, t.call.plan.problem)
}
