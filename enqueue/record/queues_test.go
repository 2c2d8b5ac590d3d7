package record

import (
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
)

func TestQueueName(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		provider, model, group string
		own                    eval.ID
		want, earlier          string
	}{
		{"openai", "", "", "", "openai", "openai"},
		{"openai", "", "", "ev-abc", "openai~ev-abc", "openai"},
		{"openai", "gpt-5-mini", "", "", "openai:gpt-5-mini", "openai-gpt-5-mini"},
		{"openai", "chat-x", "", "", "openai:chat-x", "openai-chat-x"},
		{"openai-chat", "x", "", "", "openai-chat:x", "openai-chat-x"},
		{"openrouter", "openai/gpt-5", "", "ev-abc", "openrouter:openai~2fgpt-5~ev-abc", "openrouter-openai~gpt-5"},
		{"openrouter", "x/ev-1", "", "", "openrouter:x~2fev-1", "openrouter-x~ev-1"},
		{"ollama", "llama3:8b", "", "", "ollama:llama3:8b", "ollama-llama3:8b"},
		{"openai", "", "openai", "", "group=openai", "openai"},
		{"openai", "m", "my {set}", "", "group=my~20~7bset~7d", "my~~set~"},
		{"openai", "", "my~set", "", "group=my~7eset", "my~set"},
		{"openai", "", "été 1", "", "group=été~201", "été~1"},
		{"openai", "", "a\xffb", "", "group=a~ffb", "a\xffb"},
	} {
		got := QueueName(tt.provider, tt.model, tt.group, tt.own)
		if got != tt.want {
			t.Errorf("QueueName(%q, %q, %q, %q) = %q, want %q", tt.provider, tt.model, tt.group, tt.own, got, tt.want)
		}
		if earlier := EarlierQueueName(SharedQueue(got)); earlier != tt.earlier {
			t.Errorf("EarlierQueueName(%q) = %q, want %q", got, earlier, tt.earlier)
		}
		if owner, shared := OwnerOfQueue(got), SharedQueue(got); owner != tt.own || shared != QueueName(tt.provider, tt.model, tt.group, "") {
			t.Errorf("%s is of %q in %s, want %q", got, owner, shared, tt.own)
		}
	}
	for _, earlier := range []string{"openai", "openai-gpt-5-mini", "openrouter-openai~gpt-5"} {
		if got := EarlierQueueName(earlier); got != earlier {
			t.Errorf("EarlierQueueName(%q) = %q, want the same", earlier, got)
		}
	}
}

// Queues of different limit sets have different names, in which there is nothing that a
// Redis Cluster, a URL's path or a list on the command line reads otherwise.
func FuzzQueueName(f *testing.F) {
	for _, seed := range [][6]string{
		{"openai", "chat-x", "", "openai-chat", "x", ""},
		{"p", "", "a/b", "p", "", "a b"},
		{"p", "", "a~2fb", "p", "", "a/b"},
		{"p", "", "q", "q", "", ""},
		{"group", "a", "", "p", "", "a"},
		{"p", "x~ev-1", "", "p", "x", ""},
		{"p", "\xff", "", "p", "\ufffd", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4], seed[5])
	}
	f.Fuzz(func(t *testing.T, provider, model, group, provider2, model2, group2 string) {
		if provider == "" || provider2 == "" {
			return
		}
		// A group's queue is for all of its models.
		of := func(provider, model, group string) [3]string {
			if group != "" {
				return [3]string{2: group}
			}
			return [3]string{provider, model}
		}
		first, second := of(provider, model, group), of(provider2, model2, group2)
		for _, own := range []eval.ID{"", "ev-abc"} {
			name := QueueName(provider, model, group, own)
			if same := name == QueueName(provider2, model2, group2, own); same != (first == second) {
				t.Errorf("%q and %q: one queue %q is %t", first, second, name, same)
			}
			if own == "" && OwnerOfQueue(name) != "" || own != "" && name == QueueName(provider2, model2, group2, "") {
				t.Errorf("%q: %q is also an evaluation's own", first, name)
			}
			if strings.ContainsAny(name, "/{}[]|,;?#%&*'\"\\ \t\r\n\x00") {
				t.Errorf("%q: %q has unsafe characters", first, name)
			}
		}
	})
}
