package ask

import (
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
)

// TestARefusedOverrideSaysItsRemedy: the provider's words alone do not say where the value was
// set.
func TestARefusedOverrideSaysItsRemedy(t *testing.T) {
	t.Parallel()
	judge := eval.Judge{Provider: "local", Model: "m", Overrides: map[string]any{"temperature": 0.2, "top_k": 4.0}}
	for _, test := range []struct {
		class      providers.Class
		said, want string
	}{
		{providers.BadRequest, "Unsupported value: 'temperature' does not support 0.2 with this model.",
			"; remove temperature from the overrides of local:m, or set sampling: never for it under providers.local.models"},
		{providers.BadRequest, "unknown field top_k", "; remove top_k from the overrides of local:m"},
		{providers.BadRequest, "unknown field top_k_max", ""},
		{providers.Transient, "temperature sensor failed", ""},
		{providers.BadRequest, "max_tokens is too large", ""},
	} {
		got := withRemedy(judge, &providers.Error{Class: test.class, Message: test.said})
		if remedy := strings.TrimPrefix(got, test.said); remedy != test.want {
			t.Errorf("%q: got the remedy %q, want %q", test.said, remedy, test.want)
		}
	}
}
