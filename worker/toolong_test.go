package worker

import (
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/providers"
)

// TestALongAnswerIsNotAskedForAgain: an answer that is longer than allowed was paid
// for, and would be as long again. The run says what to raise.
func TestALongAnswerIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	s := simulate(t, models(map[string]simulator.Behaviour{gpt: {AnswerBytes: providers.DefaultAnswer}}))
	s.submit(3, asks("openai:"+gpt, eval.JSONAuto, "", ""))
	defer s.start(s.cfg)()
	s.wait()
	runs, _ := s.outcomes()
	for index, ends := range runs {
		run := ends[0]
		if run.Class != providers.Malformed || !strings.Contains(run.Error, "--max-answer-mib") {
			t.Errorf("run %d ended as %s: %q, want %s and the flag to raise", index, run.Class, run.Error, providers.Malformed)
		}
	}
	if got := s.server.Stats().All.Arrived; got != int64(s.runs) {
		t.Errorf("%d calls for %d runs, want one each", got, s.runs)
	}
}
