package transport

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/providers"
)

// TestWhatTeachesThatAModelHasNoSystemRole: each server's words are recognised once, and no
// others.
func TestWhatTeachesThatAModelHasNoSystemRole(t *testing.T) {
	t.Parallel()
	instructed := &providers.Request{Messages: []providers.Message{{Role: providers.System, Content: "judge"}, {Role: providers.User, Content: "which?"}}}
	for _, test := range []struct {
		class   providers.Class
		message string
		want    bool
	}{
		{providers.BadRequest, "System role not supported", true},
		{providers.BadRequest, "Template error: invalid operation: System role not supported (in <string>:1)", true},
		{providers.Transient, "Jinja Exception: System role not supported", true},
		{providers.Transient, `Error rendering prompt with jinja template: "Only user and assistant roles are supported!"`, true},
		{providers.BadRequest, "Conversation roles must alternate user/assistant/user/assistant/...", true},
		{providers.BadRequest, "Developer instruction is not enabled for models/gemma-3-27b-it", true},
		{providers.BadRequest, "Unsupported value: 'messages[0].role' does not support 'system' with this model.", true},
		{providers.BadRequest, "This model doesn't support system messages. Try again without a system message", true},
		{providers.BadRequest, "System instruction is not supported for this model", true},
		{providers.BadRequest, "the 'system' role is not allowed here", true},
		{providers.BadRequest, "system prompts are unsupported", true},
		{providers.BadRequest, "The system is not available", false},
		{providers.BadRequest, "Unsupported parameter: 'temperature' is not supported with this model.", false},
		{providers.Transient, "file system error, the operation was not retried", false},
		{providers.RateLimited, "System role not supported", false},
	} {
		var known systemless
		err := known.learn("gemma", instructed, &providers.Error{Class: test.class, Message: test.message})
		if got := errors.Is(err, providers.ErrAgain); got != test.want {
			t.Errorf("%s: %q: learnt: %v, want %v", test.class, test.message, got, test.want)
		}
		if folded := known.folded("gemma", instructed) != instructed; folded != test.want {
			t.Errorf("%s: %q: folded: %v, want %v", test.class, test.message, folded, test.want)
		}
		if known.folded("another", instructed) != instructed {
			t.Errorf("%q: another model is asked otherwise, too", test.message)
		}
	}
	var known systemless
	bare := &providers.Request{Messages: instructed.Messages[1:]}
	if err := known.learn("gemma", bare, &providers.Error{Class: providers.BadRequest, Message: "roles must alternate"}); errors.Is(err, providers.ErrAgain) {
		t.Error("learnt from a request without a system message, which would repeat for ever")
	}
}

func TestSystemMessagesAreFolded(t *testing.T) {
	t.Parallel()
	say := func(role providers.Role, content string) providers.Message {
		return providers.Message{Role: role, Content: content}
	}
	for _, test := range []struct{ messages, want []providers.Message }{
		{
			[]providers.Message{say("system", "a"), say("system", "b"), say("user", "c"), say("assistant", "d"), say("user", "e")},
			[]providers.Message{say("user", "a\n\nb\n\nc"), say("assistant", "d"), say("user", "e")},
		},
		{[]providers.Message{say("user", "a"), say("system", "b"), say("user", "c")}, []providers.Message{say("user", "a"), say("user", "b\n\nc")}},
		{[]providers.Message{say("system", "a")}, []providers.Message{say("user", "a")}},
	} {
		if diff := cmp.Diff(test.want, fold(test.messages)); diff != "" {
			t.Errorf("folded (-want +got):\n%s", diff)
		}
	}
}
