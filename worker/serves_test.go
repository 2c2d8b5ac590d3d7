package worker

import "testing"

// --queues selects queues by the names that status lists, and by those that older
// versions gave them.
func TestServes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		only, queue string
		want        bool
	}{
		{"openai", "openai", true},
		{"openai", "openai~ev-abc", true},
		{"openai", "openai:gpt-5", false},
		{"openai:gpt-5", "openai:gpt-5~ev-abc", true},
		{"openai:gpt-5", "openai", false},
		{"openai-gpt-5", "openai:gpt-5", true},
		{"openai-gpt-5", "openai-gpt-5~ev-abc", true}, // of an older version's evaluation
		{"openrouter-openai~gpt-5", "openrouter:openai~2fgpt-5", true},
		{"openrouter:openai", "openrouter:openai~2fgpt-5", false},
		{"large", "group=large~ev-abc", true},
		{"group=large", "group=large", true},
		{"large", "group=large~2fx", false},
		{"openai~ev-abc", "openai~ev-abc", true},
		{"openai~ev-abc", "openai", false},
	} {
		if got := Serves([]string{"other", tt.only}, tt.queue); got != tt.want {
			t.Errorf("a worker for %s serves %s: %t, want %t", tt.only, tt.queue, got, tt.want)
		}
		if !Serves(nil, tt.queue) {
			t.Errorf("a worker for all queues does not serve %s", tt.queue)
		}
	}
}
