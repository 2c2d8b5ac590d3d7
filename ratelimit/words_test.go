package ratelimit

import "testing"

// A cooldown has the scope that is in its name, whatever that looks like.
func TestCooldownScope(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]Scope{
		"provider/openai/cooldown":                   {Provider: "openai"},
		"provider/local/model/org/model/7b/cooldown": {Provider: "local", Model: "org/model/7b"},
		"group/a/b/cooldown":                         {Group: "a/b"},
	} {
		if got, ok := CooldownScope(id); !ok || got != want {
			t.Errorf("%s: got %+v (%v), want %+v", id, got, ok, want)
		}
	}
	for _, id := range []string{"provider/openai/concurrency", "redis/memory", "", "fleet/cooldown"} {
		if scope, ok := CooldownScope(id); ok {
			t.Errorf("%q is no cooldown: got %+v", id, scope)
		}
	}
}
