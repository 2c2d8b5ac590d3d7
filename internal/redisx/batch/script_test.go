package batch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// Every call has its own keys, arguments and answer, also an error; one that the
// script runs into is all calls'.
func TestScript(t *testing.T) {
	t.Parallel()
	embedded := redis.NewClient(redistest.Patient(&redis.Options{Addr: miniredis.RunT(t).Addr()}))
	t.Cleanup(func() { _ = embedded.Close() })
	for name, client := range map[string]*redis.Client{
		"redis":     redistest.New(t).Client(),
		"miniredis": embedded,
	} {
		t.Run(name, func(t *testing.T) {
			script := Script(`
if ARGV[2] == "refused" then
  return redis.error_reply("REFUSED " .. KEYS[1])
end
redis.call("SET", KEYS[2], ARGV[1])
return redis.call("INCRBY", KEYS[1], ARGV[1])`)
			call := func(key string, n any, word string) Call {
				return Call{Keys: []string{key, key + "+"}, Args: []any{n, word}}
			}
			answers, err := Run(t.Context(), client, script, []Call{call("a", 1, ""), call("b", 2, "refused"), call("a", 3, "")})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"1", "REFUSED b", "4"}, strings.Split(fmt.Sprint(answers[0], "|", answers[1], "|", answers[2]), "|")); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			if _, ok := answers[1].(error); !ok {
				t.Errorf("an error is answered as %T", answers[1])
			}
			if got := client.Get(t.Context(), "a+").Val(); got != "3" {
				t.Errorf("the second call's other key holds %q, want 3", got)
			}
			if _, err := Run(t.Context(), client, script, []Call{call("a", 1, ""), call("b", "no number", "")}); err == nil {
				t.Error("a call that failed is not an error")
			}
			if _, err := Run(t.Context(), client, script, []Call{call("a", 1, ""), {Keys: []string{"b"}}}); err == nil {
				t.Error("calls of different shapes are taken")
			}
		})
	}
}
