package worker

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/providers/transport"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/call"
)

// simulated is a bench whose providers are the built-in ones, all of them at one
// simulator, which counts for itself.
type simulated struct {
	*bench
	server *simulator.Server
	cfg    Config
}

func simulate(t *testing.T, models map[string]simulator.Model) *simulated {
	t.Helper()
	return simulateOn(t, redistest.New(t), models)
}

// simulateOn does what simulate does, on a Redis of the test's own.
func simulateOn(t *testing.T, on *redistest.Server, models map[string]simulator.Model) *simulated {
	t.Helper()
	server, err := simulator.Listen("127.0.0.1:0", simulator.Config{Models: models, KeepArrivals: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &simulated{bench: setupOn(t, on, nil), server: server}
	s.cfg = s.config()
	s.cfg.Endpoints = map[string]providers.Endpoint{}
	client := transport.NewClient(transport.Connections{Slots: 20})
	t.Cleanup(client.CloseIdleConnections)
	for name, suffix := range map[string]string{"google": "", "openai": "/v1", "openaidp": "/v1", "anthropic": ""} {
		entry := catalog.BuiltIn()[name]
		entry.BaseURL, entry.Batch = server.URL+suffix, new(bool)
		*entry.Batch = name != "openaidp"
		provider, err := entry.Open(client, catalog.Credentials{})
		if err != nil {
			t.Fatal(err)
		}
		s.cfg.Endpoints[name] = providers.Endpoint{Provider: provider, Key: "sk-0123456789", Capabilities: entry.Capabilities}
	}
	return s
}

// asks are the settings of these tests' evaluations.
func asks(target string, mode eval.JSONMode, grounding, reasoning eval.Requirement) func(*eval.Evaluation, map[string]string, *record.Settings) {
	return func(e *eval.Evaluation, _ map[string]string, _ *record.Settings) {
		provider, model, _ := eval.ParseTarget(target)
		e.Judges = []eval.Judge{{Name: target, Provider: provider, Model: model}}
		e.JSON, e.Grounding, e.Reasoning = mode, grounding, reasoning
		e.Jsonify = &eval.Jsonify{Provider: "openai", Model: "gpt-4.1-mini", MaxOutputTokens: 500}
	}
}

const (
	gemini  = "gemini-2.5-flash"
	gpt     = "gpt-5-mini"
	claude  = "claude-3-5-haiku-latest"
	jsonify = "gpt-4.1-mini"
)

func models(behaviour map[string]simulator.Behaviour) map[string]simulator.Model {
	all := map[string]simulator.Model{}
	for _, name := range []string{gemini, gpt, claude, jsonify} {
		b := behaviour[name]
		all[name] = simulator.Model{Behaviour: &b}
	}
	return all
}

// arrived counts what arrived at the simulator, by what it was.
func (s *simulated) arrived() map[string]int {
	counts := map[string]int{}
	for _, a := range s.server.Arrivals() {
		what := a.Model
		if a.Search {
			what += " search"
		}
		if a.JSON {
			what += " JSON"
		}
		counts[what]++
	}
	return counts
}

// TestRouting: one call where search and JSON go together, two where they do not,
// and no schema where none is wanted.
func TestRouting(t *testing.T) {
	t.Parallel()
	const runs = 6
	one := func(what string) map[string]int { return map[string]int{what: runs} }
	two := func(first string) map[string]int { return map[string]int{first: runs, jsonify + " JSON": runs} }
	both := []eval.JSONMode{eval.JSONAuto, eval.JSONTrue}
	for name, test := range map[string]struct {
		judge     string
		modes     []eval.JSONMode
		grounding eval.Requirement
		want      map[string]int
	}{
		"Google, grounded":                     {"google:" + gemini, both, eval.Required, two(gemini + " search")},
		"Google, not grounded":                 {"google:" + gemini, both, eval.Off, one(gemini + " JSON")},
		"Google, grounded, no JSON":            {"google:" + gemini, []eval.JSONMode{eval.JSONFalse}, eval.Required, one(gemini + " search")},
		"OpenAI, grounded":                     {"openai:" + gpt, both, eval.Required, one(gpt + " search JSON")},
		"OpenAI, no JSON":                      {"openai:" + gpt, []eval.JSONMode{eval.JSONFalse}, "", one(gpt)},
		"no structured output, auto":           {"anthropic:" + claude, []eval.JSONMode{eval.JSONAuto}, "", one(claude)},
		"no structured output, true":           {"anthropic:" + claude, []eval.JSONMode{eval.JSONTrue}, "", two(claude)},
		"no structured output, grounded, auto": {"anthropic:" + claude, []eval.JSONMode{eval.JSONAuto}, eval.Required, two(claude + " search")},
	} {
		for _, mode := range test.modes {
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				t.Parallel()
				s := simulate(t, models(nil))
				s.submit(3, asks(test.judge, mode, test.grounding, ""))
				stop := s.start(s.cfg)
				s.wait()
				stop()
				if diff := cmp.Diff(test.want, s.arrived()); diff != "" {
					t.Errorf("arrived (-want +got):\n%s", diff)
				}
				if counts := s.server.Stats().All; counts.Answered != counts.Arrived {
					t.Errorf("%d of %d requests were answered", counts.Answered, counts.Arrived)
				}
				s.wantVerdicts(t, test.judge, test.grounding == eval.Required, len(test.want) == 2)
			})
		}
	}
}

// wantVerdicts holds every run's calls against what was asked: the stages with
// their evidence and usage, and one verdict of the judge.
func (s *simulated) wantVerdicts(t *testing.T, judge string, grounded, inTwo bool) {
	t.Helper()
	runs, calls := s.outcomes()
	for index := range s.runs {
		of := runs[index]
		if len(of) != 1 || of[0].State != eval.StateSucceeded.String() || of[0].Winner == "" || of[0].AnsweredBy != judge {
			t.Errorf("run %d: got %+v, want one verdict of %s", index, of, judge)
		}
	}
	stages := map[string]int{}
	for _, c := range calls {
		stages[c.Stage+" of "+c.Model]++
		if !c.Usage.Reported || c.Usage.Input == 0 || c.Text == "" {
			t.Errorf("call %s: got usage %+v and text %q", c.ID, c.Usage, c.Text)
		}
		first := c.Stage == call.StageVerdict || c.Stage == call.StageGrounded
		if evident := c.Grounding != nil && c.Grounding.Evident() && len(c.Grounding.Sources) > 0; evident != (grounded && first) {
			t.Errorf("call %s: evidence %+v, want some: %v", c.ID, c.Grounding, grounded && first)
		}
		if valid := json.Valid([]byte(c.Text)); valid != (c.Stage != call.StageGrounded) {
			t.Errorf("call %s: got %q", c.ID, c.Text)
		}
	}
	want := map[string]int{call.StageVerdict + " of " + judge: s.runs}
	if inTwo {
		want = map[string]int{call.StageGrounded + " of " + judge: s.runs, call.StageJSON + " of openai:" + jsonify: s.runs}
	}
	if diff := cmp.Diff(want, stages); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
}

// TestSecondStageIsRepeatedAlone: the search is paid for once, however often
// writing down its answer fails.
func TestSecondStageIsRepeatedAlone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		behaviour simulator.Behaviour
		state     eval.State
		second    int // calls of each run
	}{
		"fails once":     {simulator.Behaviour{FailEvery: 1, FailStatus: 503}, eval.StateSucceeded, 2},
		"fails for good": {simulator.Behaviour{FailRate: 1, FailStatus: 500}, eval.StateFailed, 3},
		"is cut off":     {simulator.Behaviour{TruncateRate: 1}, eval.StateFailed, 1}, // under the same bound it would be cut off again
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := simulate(t, models(map[string]simulator.Behaviour{jsonify: test.behaviour}))
			s.submit(3, asks("google:"+gemini, eval.JSONAuto, eval.Required, ""))
			stop := s.start(s.cfg)
			standing := s.wait()
			stop()
			if got := standing.Total(test.state); got != s.runs {
				t.Errorf("%d of %d runs are %s", got, s.runs, test.state)
			}
			want := map[string]int{gemini + " search": s.runs, jsonify + " JSON": test.second * s.runs}
			if diff := cmp.Diff(want, s.arrived()); diff != "" {
				t.Errorf("arrived (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSecondStageOfAnotherWorker: a run that goes back to its queue between the two
// calls has its answer in prose with it.
func TestSecondStageOfAnotherWorker(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	hint := simulator.Span{Min: 3 * time.Second, Max: 3 * time.Second}
	s := simulate(t, models(map[string]simulator.Behaviour{jsonify: {FailEvery: 1, FailStatus: 503, RetryAfter: hint}}))
	s.submit(2, asks("google:"+gemini, eval.JSONAuto, eval.Required, ""))
	stop := s.start(s.cfg)
	s.waitFor("every run's second call has failed", func(store.Standing) bool { return s.arrived()[jsonify+" JSON"] == s.runs })
	stop()
	defer s.start(s.cfg)()
	s.wait()
	want := map[string]int{gemini + " search": s.runs, jsonify + " JSON": 2 * s.runs}
	if diff := cmp.Diff(want, s.arrived()); diff != "" {
		t.Errorf("arrived (-want +got):\n%s", diff)
	}
	runs, calls := s.outcomes()
	for index, of := range runs {
		if len(of) != 1 || of[0].State != eval.StateSucceeded.String() || of[0].Attempts != 3 {
			t.Errorf("run %d: got %+v, want it succeeded in 3 calls", index, of)
		}
	}
	if len(calls) != 3*s.runs {
		t.Errorf("%d calls are recorded, want %d", len(calls), 3*s.runs)
	}
}

// TestSecondStageKeepsItsProvidersLimits: the calls that write JSON are their
// provider's, whatever the judge's provider allows.
func TestSecondStageKeepsItsProvidersLimits(t *testing.T) {
	t.Parallel()
	slow := simulator.Behaviour{Latency: simulator.Span{Min: 40 * time.Millisecond, Max: 60 * time.Millisecond}}
	all := models(map[string]simulator.Behaviour{jsonify: slow, gemini: latency(time.Second)})
	strict := all[jsonify]
	strict.MaxInFlight = 2
	all[jsonify] = strict
	s := simulate(t, all)
	s.submit(6, asks("google:"+gemini, eval.JSONAuto, eval.Required, ""), func(_ *eval.Evaluation, _ map[string]string, settings *record.Settings) {
		settings.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "openai"}, Kind: ratelimit.Concurrency, Max: 2}}
	})
	stop := s.start(s.cfg)
	s.wait()
	stop()
	counts := s.server.Stats().Models
	if c := counts[jsonify]; c.Rejected > 0 || c.MaxInFlight > 2 {
		t.Errorf("%s: %d rejected, %d in flight at most, want none over 2", jsonify, c.Rejected, c.MaxInFlight)
	}
	if c := counts[gemini]; c.MaxInFlight <= 2 {
		t.Errorf("%s: %d in flight at most, want more than the other's limit", gemini, c.MaxInFlight)
	}
	s.wantVerdicts(t, "google:"+gemini, true, true)
}

// TestAnswersWithoutEvidenceAreNoResults: whatever such an answer says, and however
// often; every one was paid for and is recorded.
func TestAnswersWithoutEvidenceAreNoResults(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		judge     string
		mode      eval.JSONMode
		behaviour simulator.Behaviour
		class     providers.Class
	}{
		"Google, in two calls":             {"google:" + gemini, eval.JSONAuto, simulator.Behaviour{UngroundedRate: 1}, providers.Ungrounded},
		"Google, in one call":              {"google:" + gemini, eval.JSONFalse, simulator.Behaviour{UngroundedRate: 1}, providers.Ungrounded},
		"OpenAI, no search":                {"openai:" + gpt, eval.JSONAuto, simulator.Behaviour{UngroundedRate: 1}, providers.Ungrounded},
		"OpenAI, search with JSON ignored": {"openai:" + gpt, eval.JSONAuto, simulator.Behaviour{SearchWithJSON: simulator.SearchIgnored}, providers.Ungrounded},
		"Anthropic, no search":             {"anthropic:" + claude, eval.JSONAuto, simulator.Behaviour{UngroundedRate: 1}, providers.Ungrounded},
		"Google, no reasoning":             {"google:" + gemini, eval.JSONAuto, simulator.Behaviour{UnreasonedRate: 1}, providers.Unreasoned},
		"OpenAI, no reasoning":             {"openai:" + gpt, eval.JSONAuto, simulator.Behaviour{UnreasonedRate: 1}, providers.Unreasoned},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, model, _ := eval.ParseTarget(test.judge)
			s := simulate(t, models(map[string]simulator.Behaviour{model: test.behaviour}))
			var reasoning eval.Requirement
			if test.class == providers.Unreasoned {
				reasoning = eval.Required
			}
			s.submit(2, asks(test.judge, test.mode, eval.Required, reasoning), func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
				s.Retry = record.Retry{MaxAttempts: 3, InitialDelay: 300 * time.Millisecond, MaxDelay: 300 * time.Millisecond}
			})
			stop := s.start(s.cfg)
			s.wait()
			stop()
			counts := s.server.Stats()
			if got, want := counts.All.Arrived, int64(3*s.runs); got != want {
				t.Errorf("%d requests, want %d: 3 attempts a run, and none to write JSON", got, want)
			}
			if got, want := counts.All.Prompts, 2*s.runs; got != want {
				t.Errorf("%d different prompts, want %d: of each run one, and a firmer one twice", got, want)
			}
			runs, calls := s.outcomes()
			for index := range s.runs {
				of := runs[index]
				if len(of) != 1 || of[0].State != eval.StateFailed.String() || of[0].Class != test.class || of[0].Winner != "" || of[0].Attempts != 3 {
					t.Errorf("run %d: got %+v, want it failed as %s", index, of, test.class)
				}
			}
			for _, c := range calls {
				if c.Class != test.class || c.Status != 200 || !c.MaybeBill || !c.Usage.Reported || c.Usage.Output == 0 || c.Text == "" {
					t.Errorf("call %s: got %+v, want it paid for and of class %s", c.ID, c, test.class)
				}
			}
			if len(calls) != 3*s.runs {
				t.Errorf("%d calls are recorded, want %d", len(calls), 3*s.runs)
			}
			slices.SortFunc(calls, func(a, b record.Call) int {
				if a.Index != b.Index {
					return a.Index - b.Index
				}
				return a.Started.Compare(b.Started)
			})
			for i, c := range calls {
				if i == 0 || calls[i-1].Index != c.Index {
					continue
				}
				if waited := c.Started.Sub(calls[i-1].Ended); waited < 290*time.Millisecond {
					t.Errorf("run %d is asked again after %s, want the delay between attempts", c.Index, waited)
				}
			}
		})
	}
}

// TestOnlyEvidentAnswersBecomeResults: where some answers have evidence, those of
// runs that succeeded do.
func TestOnlyEvidentAnswersBecomeResults(t *testing.T) {
	t.Parallel()
	s := simulate(t, models(map[string]simulator.Behaviour{gemini: {UngroundedRate: 0.5, UnreasonedRate: 0.3}}))
	s.submit(8, asks("google:"+gemini, eval.JSONAuto, eval.Required, eval.Required))
	stop := s.start(s.cfg)
	s.wait()
	stop()
	runs, calls := s.outcomes()
	answered := map[int]record.Call{}
	for _, c := range calls {
		if c.Stage == call.StageGrounded && c.Class == "" {
			answered[c.Index] = c
		}
	}
	succeeded := 0
	for index, of := range runs {
		c, ok := answered[index]
		if of[0].State != eval.StateSucceeded.String() {
			if class := of[0].Class; ok || class != providers.Ungrounded && class != providers.Unreasoned {
				t.Errorf("run %d failed as %s: %s", index, class, of[0].Error)
			}
			continue
		}
		succeeded++
		if !ok || c.Grounding == nil || c.Usage.Reasoning == 0 {
			t.Errorf("run %d succeeded on %+v", index, c)
		}
	}
	if succeeded == 0 || succeeded == s.runs || len(calls) == succeeded*2 {
		t.Errorf("%d of %d runs succeeded in %d calls: nothing was tried", succeeded, s.runs, len(calls))
	}
	if made := s.arrived()[jsonify+" JSON"]; made != succeeded {
		t.Errorf("%d calls wrote JSON, want %d", made, succeeded)
	}
}

// TestWithoutAWriterOfJSON: what cannot be done is said, or left to a worker that
// can do it; no search is paid for.
func TestWithoutAWriterOfJSON(t *testing.T) {
	t.Parallel()
	t.Run("none is named", func(t *testing.T) {
		t.Parallel()
		s := simulate(t, models(nil))
		s.submit(2, asks("google:"+gemini, eval.JSONAuto, eval.Required, ""), func(e *eval.Evaluation, _ map[string]string, _ *record.Settings) { e.Jsonify = nil })
		defer s.start(s.cfg)()
		s.wait()
		runs, _ := s.outcomes()
		if of := runs[0]; len(of) != 1 || of[0].Class != providers.BadRequest || !strings.Contains(of[0].Error, "no jsonify") {
			t.Errorf("got %+v", of)
		}
	})
	t.Run("it is not this worker's", func(t *testing.T) {
		t.Parallel()
		s := simulate(t, models(nil))
		s.submit(2, asks("google:"+gemini, eval.JSONAuto, eval.Required, ""))
		delete(s.cfg.Endpoints, "openai")
		defer s.start(s.cfg)()
		s.waitFor("the runs have come back", func(store.Standing) bool {
			waiting := s.store.Client().ZCard(t.Context(), "asynq:{google}:retry").Val()
			return waiting == int64(s.runs)
		})
		if got := s.arrived(); len(got) > 0 {
			t.Errorf("arrived: %v, want nothing", got)
		}
	})
}
