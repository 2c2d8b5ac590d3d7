package simulator

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A beginning is found if it was marked, is long enough, the same to the last byte, and not too old; in each vendor's way.
func TestPromptCaches(t *testing.T) {
	t.Parallel()
	begins := strings.Repeat("one two ", 300) // 600 tokens
	other := strings.Repeat("two one ", 300)
	type prompt struct {
		first, rest string
		marked      bool
		key         string
		unasked     bool
		life        time.Duration
	}
	for name, test := range map[string]struct {
		manner          Manner
		before, after   prompt
		cached, written int // of the second prompt
	}{
		"marked":               {Marked, prompt{begins, "a", true, "", false, 0}, prompt{begins, "b", true, "", false, 0}, 600, 0},
		"not marked":           {Marked, prompt{begins, "a", true, "", false, 0}, prompt{begins, "b", false, "", false, 0}, 0, 0},
		"another":              {Marked, prompt{begins, "a", true, "", false, 0}, prompt{other, "b", true, "", false, 0}, 0, 600},
		"too short":            {Marked, prompt{"one", "a", true, "", false, 0}, prompt{"one", "b", true, "", false, 0}, 0, 0},
		"too old":              {Marked, prompt{begins, "a", true, "", false, 0}, prompt{begins, "b", true, "", false, time.Nanosecond}, 0, 600},
		"steps":                {Stepped, prompt{begins, "a", false, "", false, 0}, prompt{begins, "b", false, "", false, 0}, 512, 0},
		"steps, another cache": {Stepped, prompt{begins, "a", false, "k", false, 0}, prompt{begins, "b", false, "l", false, 0}, 0, 0},
		"a breakpoint":         {Broken, prompt{begins, "a", true, "", true, 0}, prompt{begins, "b", true, "", true, 0}, 600, 0},
		"unasked":              {Broken, prompt{begins, "a", false, "", false, 0}, prompt{begins, "b", false, "", false, 0}, 0, 601},
		"asked for nothing":    {Broken, prompt{begins, "a", false, "", true, 0}, prompt{begins, "b", false, "", true, 0}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			life := max(test.after.life, 0)
			if life == 0 {
				life = time.Hour
			}
			s := New(Config{Behaviour: Behaviour{PromptCache: &PromptCache{Manner: test.manner, Life: Span{life, life}, Minimum: 256}}})
			var last *call
			for _, p := range []prompt{test.before, test.after} {
				req := &request{model: "careful", routed: true, cacheKey: p.key, unasked: p.unasked}
				blocks := contentBlocks{{Type: "text", Text: p.first}, {Type: "text", Text: p.rest}}
				if p.marked {
					blocks[0].Breakpoint = []byte("{}")
				}
				req.say("user", blocks.texts(), tiledTokens)
				c, refused := s.admit(req, "", s.behaviour(req.model))
				if refused != nil {
					t.Fatal(refused)
				}
				s.leave(c, answered)
				last = c
			}
			if got := fmt.Sprint(last.plan.cached, last.plan.cachedNow); got != fmt.Sprint(test.cached, test.written) {
				t.Errorf("read and written: %s tokens, want %d and %d", got, test.cached, test.written)
			}
		})
	}
}
