package providertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
)

// RunBatches runs the suite of providers.Batches, as Run does.
func RunBatches(t *testing.T, d Dialect) {
	d.runAll(t, []test{
		{"batch", answeredBatch, true},
		{"batch as an ordinary call", batchAsCalls, false},
		{"failures in a batch", failuresInBatch, false},
		{"expired", expiredBatch, false},
		{"cancelled batch", cancelledBatch, false},
		{"enqueued tokens", enqueuedTokens, false},
		{"found", foundBatch, true},
		{"lost", lostBatch, false},
		{"invalid batches", invalidBatches, false},
		{"reading stops", readingStops, true},
		{"long answers in a batch", longInBatch, false},
		{"keys of batches", batchKeys, false},
		{"batch not ready", batchNotReady, true},
	})
}

// batched is a site whose provider has batches.
type batched struct {
	*site
	providers.Batches
}

func (d Dialect) startBatches(t *testing.T, config simulator.Config) batched {
	t.Helper()
	s := d.start(t, config)
	batches, ok := s.provider.(providers.Batches)
	if !ok {
		t.Fatalf("%T has no batches", s.provider)
	}
	return batched{s, batches}
}

// requests returns so many different requests, with the IDs r-0, r-1, ….
func (d Dialect) requests(n int) []providers.BatchRequest {
	requests := make([]providers.BatchRequest, n)
	for i := range requests {
		req := d.verdict()
		req.Messages = slices.Clone(req.Messages)
		req.Messages[1].Content += fmt.Sprintf("\nThis is question %d.", i)
		requests[i] = providers.BatchRequest{ID: fmt.Sprintf("r-%d", i), Request: req}
	}
	return requests
}

// submit submits a batch that must be accepted.
func (b batched) submit(t *testing.T, name string, requests []providers.BatchRequest) string {
	t.Helper()
	id, err := b.SubmitBatch(outliving(t), key, name, requests)
	if err != nil || id == "" {
		t.Fatalf("got %q and %s, want the ID of a batch", id, told(err))
	}
	return id
}

// wait polls until a batch has ended.
func (b batched) wait(t *testing.T, id string) (state providers.BatchState) {
	t.Helper()
	testrun.EventuallyGot(t, "the batch ends", func() (string, bool) {
		var err error
		state, err = b.PollBatch(outliving(t), key, id)
		if err != nil {
			t.Fatal(told(err))
		}
		return fmt.Sprintf("%+v", state), state.Ended
	})
	return state
}

// outcome is what a batch says about a request.
type outcome struct {
	result *providers.Result
	failed *providers.Error
}

// answers reads a batch to its end. No request may be answered twice.
func (b batched) answers(ctx context.Context, t *testing.T, id string) map[string]outcome {
	t.Helper()
	got := map[string]outcome{}
	err := b.BatchAnswers(ctx, key, id, func(request string, result *providers.Result, err error) error {
		var failed *providers.Error
		if _, twice := got[request]; twice || (result == nil) != errors.As(err, &failed) {
			t.Errorf("request %q: got %s and %v, want one outcome", request, brief(result), err)
		}
		got[request] = outcome{result, failed}
		return nil
	})
	if err != nil {
		t.Fatal(told(err))
	}
	return got
}

// soon makes batches that take long enough to be seen under way.
var soon = simulator.Behaviour{BatchTime: simulator.Span{Min: 200 * time.Millisecond, Max: 200 * time.Millisecond}}

func answeredBatch(t *testing.T, d Dialect) {
	b := d.startBatches(t, simulator.Config{Behaviour: soon})
	const n = 5
	id := b.submit(t, "a-name_1", d.requests(n))
	if state, err := b.PollBatch(outliving(t), key, id); err != nil || state.Ended {
		t.Errorf("at once: got %+v and %v, want that it has not ended", state, err)
	}
	if err := b.BatchAnswers(outliving(t), key, id, nil); err == nil || !providers.ClassOf(err).Retryable() {
		t.Errorf("read too early: got %s, want an error that goes away", told(err))
	}
	state := b.wait(t, id)
	if state.Total != n || state.Answered != n || state.Failed != 0 || state.Failure != nil || time.Until(state.Expires) < 23*time.Hour {
		t.Errorf("got %+v, want %d answers, and a day to give them", state, n)
	}
	var used providers.Usage
	for request, got := range b.answers(outliving(t), t, id) {
		switch {
		case !strings.HasPrefix(request, "r-"):
			t.Errorf("got an answer to %q", request)
		case got.failed != nil:
			t.Errorf("%s: got %s, want an answer", request, told(got.failed))
		case got.result.Usage.Tier != providers.TierBatch, !got.result.Usage.Reported, got.result.Finish != providers.FinishStop,
			!strings.Contains(string(got.result.JSON), better):
			t.Errorf("%s: got %s, want a verdict at the price of a batch", request, brief(got.result))
		default:
			used.Input += got.result.Usage.Input
			used.Output += got.result.Usage.Output
		}
	}

	// Read again, it says the same: a worker may die while it reads.
	if again := b.answers(outliving(t), t, id); len(again) != n {
		t.Errorf("read again: got %d answers, want %d", len(again), n)
	}
	all := b.Stats().All
	charged := float64(used.Input+4*used.Output) / 1e6 / 2
	if all.Batches.Submitted != 1 || all.Batches.Answered != n || all.PromptsRetaken != 0 || all.Arrived != 0 ||
		all.Batches.Enqueued != 0 || all.Batches.MostEnqueued == 0 || all.ChargedUSD-charged > 1e-9 || charged-all.ChargedUSD > 1e-9 {
		t.Errorf("the simulator counts %+v, want one batch of %d answers for %g USD", all, n, charged)
	}
}

// batchAsCalls compares the answers of a batch with those of ordinary calls.
func batchAsCalls(t *testing.T, d Dialect) {
	b := d.startBatches(t, simulator.Config{})
	requests := d.requests(3)
	id := b.submit(t, "same", requests)
	b.wait(t, id)
	got := b.answers(outliving(t), t, id)
	for _, r := range requests {
		want := d.start(t, simulator.Config{}).answer(t, r.Request)
		result := got[r.ID].result
		if result == nil || result.Text != want.Text || result.Usage.Input != want.Usage.Input || result.Model != want.Model {
			t.Errorf("%s: got %s, want %s", r.ID, brief(result), brief(want))
		}
	}
}

func failuresInBatch(t *testing.T, d Dialect) {
	for _, failure := range []simulator.Failure{
		simulator.RateLimited, simulator.Overloaded, simulator.ServerError, simulator.ContextLength, simulator.Garbage,
	} {
		if slices.Contains(d.Unknown, failure) {
			continue
		}
		broken := simulator.Config{Behaviour: simulator.Behaviour{FailRate: 1, FailAs: failure, Vendor: d.Vendor}}
		b := d.startBatches(t, broken)
		id := b.submit(t, "failing", d.requests(2))
		if state := b.wait(t, id); state.Failed != 2 || state.Answered != 0 || state.Failure != nil {
			t.Errorf("%s: got %+v, want that two failed", failure, state)
		}

		got := b.answers(outliving(t), t, id)
		want := d.start(t, broken).fails(t, d.requests(1)[0].Request).Class
		for request, one := range got {
			if one.failed == nil || one.failed.Class != want && failure != simulator.Garbage {
				t.Errorf("%s: request %s: got %s, want class %s as of an ordinary call", failure, request, told(one.failed), want)
			}
		}
		if len(got) != 2 {
			t.Errorf("%s: got %d outcomes, want 2", failure, len(got))
		}
	}
}

func expiredBatch(t *testing.T, d Dialect) {
	b := d.startBatches(t, simulator.Config{Behaviour: simulator.Behaviour{BatchExpireRate: 0.5}})
	const n = 12
	id := b.submit(t, "late", d.requests(n))
	state := b.wait(t, id)
	expired := 0
	for request, got := range b.answers(outliving(t), t, id) {
		if got.failed == nil {
			continue
		}
		if expired++; got.failed.Class != providers.Cancelled || got.failed.MayBeBilled {
			t.Errorf("%s: got %s, want class cancelled, unbilled", request, told(got.failed))
		}
	}
	counts := b.Stats().All.Batches
	if expired == 0 || expired == n || int64(expired) != counts.Expired || state.Failed != expired || state.Answered != n-expired {
		t.Errorf("got %d expired requests and %+v, the simulator counts %+v", expired, state, counts)
	}
}

func cancelledBatch(t *testing.T, d Dialect) {
	long := simulator.Span{Min: 2 * time.Second, Max: 2 * time.Second}
	b := d.startBatches(t, simulator.Config{Behaviour: simulator.Behaviour{BatchTime: long}})
	const n = 200
	id := b.submit(t, "unwanted", d.requests(n))
	testrun.Eventually(t, "an answer is there", func() bool { return b.Stats().All.Batches.Answered > 0 })
	for range 2 {
		if err := b.CancelBatch(outliving(t), key, id); err != nil {
			t.Fatal(told(err))
		}
	}
	b.wait(t, id)
	if err := b.CancelBatch(outliving(t), key, id); err != nil {
		t.Errorf("after its end: got %s, want no error", told(err))
	}

	answered, cancelled := 0, 0
	for request, got := range b.answers(outliving(t), t, id) {
		switch {
		case got.failed == nil:
			answered++
		case got.failed.Class == providers.Cancelled && !got.failed.MayBeBilled:
			cancelled++
		default:
			t.Errorf("%s: got %s, want class cancelled, unbilled", request, told(got.failed))
		}
	}

	counts := b.Stats().All.Batches
	if answered == 0 || cancelled == 0 || answered+cancelled != n || counts.Answered != int64(answered) || counts.Enqueued != 0 {
		t.Errorf("got %d answers and %d cancelled requests of %d, the simulator counts %+v", answered, cancelled, n, counts)
	}
}

func enqueuedTokens(t *testing.T, d Dialect) {
	requests := d.requests(2)
	probe := d.startBatches(t, simulator.Config{})
	probe.submit(t, "probe", requests)
	one := probe.Stats().All.Batches.MostEnqueued

	limits := simulator.Limits{EnqueuedTokens: one}
	hour := simulator.Behaviour{BatchTime: simulator.Span{Min: time.Hour, Max: time.Hour}}
	b := d.startBatches(t, simulator.Config{Models: map[string]simulator.Model{d.Model: {Limits: limits}}, Behaviour: hour})
	first := b.submit(t, "first", requests)
	refused := b.refusal(t, "second", requests)
	if refused.Class != providers.RateLimited || refused.Exceeded != providers.LimitEnqueuedTokens || refused.MayBeBilled {
		t.Errorf("got %s about limit %q, want class rate_limited about enqueued tokens, unbilled", told(refused), refused.Exceeded)
	}
	if err := b.CancelBatch(outliving(t), key, first); err != nil {
		t.Fatal(told(err))
	}
	if counts := b.Stats().All.Batches; counts.Refused != 1 || counts.Submitted != 1 || counts.MostEnqueued != one {
		t.Errorf("the simulator counts %+v, want one batch of %d tokens, and one refused", counts, one)
	}
}

// refusal submits a batch that must be refused, at once or when it is polled.
func (b batched) refusal(t *testing.T, name string, requests []providers.BatchRequest) *providers.Error {
	t.Helper()
	id, err := b.SubmitBatch(outliving(t), key, name, requests)
	var refused *providers.Error
	if errors.As(err, &refused) {
		return refused
	}
	if state := b.wait(t, id); state.Failure != nil {
		if got := b.answers(outliving(t), t, id); len(got) != 0 {
			t.Errorf("got %d answers of a batch that was refused", len(got))
		}
		return state.Failure
	}
	t.Fatal("the batch was not refused")
	return nil
}

func foundBatch(t *testing.T, d Dialect) {
	b := d.startBatches(t, simulator.Config{})
	before := time.Now()
	find := func(name string, since time.Time) string {
		t.Helper()
		var id string
		testrun.EventuallyGot(t, "the provider knows", func() (string, bool) {
			var err error
			id, err = b.FindBatch(outliving(t), key, name, since, 2)
			if err != nil && !errors.Is(err, providers.ErrUndecided) {
				t.Fatal(told(err))
			}
			return told(err), err == nil
		})
		return id
	}
	if id := find("one", before); id != "" {
		t.Errorf("before: got %q, want no batch", id)
	}
	one, another := b.submit(t, "one", d.requests(2)), b.submit(t, "another", d.requests(2))
	for name, want := range map[string]string{"one": one, "another": another, "on": "", "a-third": ""} {
		if id := find(name, before); id != want {
			t.Errorf("%s: got batch %q, want %q", name, id, want)
		}
	}
	if id := find("one", before.Add(24*time.Hour)); id != "" && id != one {
		t.Errorf("created too early: got %q", id)
	}

	// The answer to the submission is lost on its way.
	deaf := d.startBatches(t, simulator.Config{Behaviour: simulator.Behaviour{CutRate: 1}})
	_, err := deaf.SubmitBatch(outliving(t), key, "unheard", d.requests(2))
	var failed *providers.Error
	if !errors.As(err, &failed) || !failed.MayBeBilled {
		t.Fatalf("the answer lost: got %s, want an error that says that the batch may exist", told(err))
	}
	b = deaf
	if id := find("unheard", before); id == "" {
		t.Error("the answer lost: the batch is not found")
	}
}

func lostBatch(t *testing.T, d Dialect) {
	b := d.startBatches(t, simulator.Config{Behaviour: simulator.Behaviour{LoseRate: 1}})
	id := b.submit(t, "forgotten", d.requests(1))
	for _, id := range []string{id, "batch_unknown", "..", ""} {
		_, err := b.PollBatch(outliving(t), key, id)
		if class := providers.ClassOf(err); err == nil || class != providers.Lost && strings.Trim(id, ".") != "" {
			t.Errorf("poll of %q: got %s, want class lost", id, told(err))
		}
		err = b.BatchAnswers(outliving(t), key, id, nil)
		if class := providers.ClassOf(err); err == nil || class != providers.Lost && strings.Trim(id, ".") != "" {
			t.Errorf("answers of %q: got %s, want class lost", id, told(err))
		}
	}
	if err := b.CancelBatch(outliving(t), key, id); err != nil {
		t.Errorf("cancel: got %s, want no error", told(err))
	}
}

// invalidBatches checks that nothing is sent.
func invalidBatches(t *testing.T, d Dialect) {
	b := d.startBatches(t, simulator.Config{})
	twice := d.requests(2)
	twice[1].ID = twice[0].ID
	mixed := d.requests(2)
	mixed[1].Request.Model = "careless"
	badID, longID := d.requests(1), d.requests(1)
	badID[0].ID, longID[0].ID = "r 0", strings.Repeat("x", providers.MostBatchID+1)

	for what, test := range map[string]struct {
		name     string
		requests []providers.BatchRequest
	}{
		"no requests": {"name", nil}, "no name": {"", d.requests(1)}, "a name with a space": {"a b", d.requests(1)},
		"a long name": {strings.Repeat("n", providers.MostBatchName+1), d.requests(1)},
		"an ID twice": {"name", twice}, "two models": {"name", mixed}, "an ID with a space": {"name", badID}, "a long ID": {"name", longID},
		"too many": {"name", make([]providers.BatchRequest, b.BatchBounds().Requests+1)},
	} {
		_, err := b.SubmitBatch(outliving(t), key, test.name, test.requests)
		var failed *providers.Error
		if !errors.As(err, &failed) || failed.Class != providers.BadRequest || failed.MayBeBilled {
			t.Errorf("%s: got %s, want class bad_request, unbilled", what, told(err))
		}
	}

	if requests, _ := b.calls(); requests != 0 {
		t.Errorf("%d requests arrived, want none", requests)
	}
}

func readingStops(t *testing.T, d Dialect) {
	b := d.startBatches(t, simulator.Config{})
	id := b.submit(t, "enough", d.requests(3))
	b.wait(t, id)
	enough, calls := errors.New("enough"), 0
	err := b.BatchAnswers(outliving(t), key, id, func(string, *providers.Result, error) error {
		calls++
		return enough
	})
	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("got %v after %d answers, want the error of the first", err, calls)
	}
}

// longInBatch checks that an answer that is too long is an error of its own request, and the others are read.
func longInBatch(t *testing.T, d Dialect) {
	b := d.startBatches(t, simulator.Config{Behaviour: simulator.Behaviour{AnswerBytes: 300 << 10}})
	id := b.submit(t, "long", d.requests(3))
	b.wait(t, id)
	for most, fits := range map[int]bool{20 << 10: false, 250 << 10: false, 1 << 20: true} {
		asked := 0
		ctx := providers.WithReading(outliving(t), providers.Reading{Most: most, Room: func(context.Context) error { asked++; return nil }})
		got := b.answers(ctx, t, id)
		for request, one := range got {
			if fits != (one.failed == nil) || one.failed != nil && (one.failed.Class != providers.Malformed || !one.failed.MayBeBilled) {
				t.Errorf("%d bytes allowed: %s: got %s and %s", most, request, brief(one.result), told(one.failed))
			}
		}
		if len(got) != 3 || asked == 0 {
			t.Errorf("%d bytes allowed: got %d outcomes after asking %d times for room, want 3", most, len(got), asked)
		}
	}
	short := errors.New("no memory")
	ctx := providers.WithReading(outliving(t), providers.Reading{Most: 1 << 20, Room: func(context.Context) error { return short }})
	if err := b.BatchAnswers(ctx, key, id, func(string, *providers.Result, error) error { return nil }); !errors.Is(err, short) {
		t.Errorf("without room: got %v", err)
	}
}

// batchKeys checks that the key is in the header of every request, and nowhere else.
func batchKeys(t *testing.T, d Dialect) {
	b := d.startBatches(t, simulator.Config{Keys: []string{key}})
	id := b.submit(t, "secret", d.requests(1))
	b.wait(t, id)
	b.answers(outliving(t), t, id)
	if _, err := b.FindBatch(outliving(t), key, "secret", time.Now(), 1); err != nil {
		t.Error(told(err))
	}
	b.mu.Lock()
	for _, r := range b.received {
		value := r.header.Get(d.KeyHeader)
		r.header.Del(d.KeyHeader)
		if !strings.Contains(value, key) || strings.Contains(r.url+r.body+fmt.Sprint(r.header), key) {
			t.Errorf("%s: want the key in %s only", r.url, d.KeyHeader)
		}
	}
	b.mu.Unlock()

	const wrong = "sk-another-key-0123"
	_, submitted := b.SubmitBatch(outliving(t), wrong, "name", d.requests(1))
	_, found := b.FindBatch(outliving(t), wrong, "name", time.Now(), 1)
	_, polled := b.PollBatch(outliving(t), wrong, id)
	for what, err := range map[string]error{
		"submit": submitted, "find": found, "poll": polled,
		"answers": b.BatchAnswers(outliving(t), wrong, id, nil), "cancel": b.CancelBatch(outliving(t), wrong, id),
	} {
		var failed *providers.Error
		if !errors.As(err, &failed) || failed.Class != providers.Auth || failed.MayBeBilled {
			t.Errorf("%s with a wrong key: got %s, want class auth, unbilled", what, told(err))
		}
	}
}

// batchNotReady checks that Ready is asked for the request that creates the batch.
func batchNotReady(t *testing.T, d Dialect) {
	b := d.startBatches(t, simulator.Config{})
	requests := d.requests(2)
	no := errors.New("not now")
	requests[0].Request.Ready = func() error { return no }
	_, err := b.SubmitBatch(outliving(t), key, "early", requests)
	var failed *providers.Error
	if !errors.As(err, &failed) || !errors.Is(err, no) || failed.MayBeBilled {
		t.Errorf("got %s, want the error of Ready, unbilled", told(err))
	}
	if counts := b.Stats().All.Batches; counts.Submitted != 0 {
		t.Errorf("%d batches were submitted, want none", counts.Submitted)
	}
}
