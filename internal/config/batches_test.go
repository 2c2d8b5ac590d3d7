package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestBatchEndpoints: what batch may say, and which models are asked in batches.
func TestBatchEndpoints(t *testing.T) {
	t.Parallel()
	const head = "documents: [docs/*.md]\npairwise: {pairs: all}\njudges: [openai:gpt-4.1-mini%s]\n"
	one, both := fmt.Sprintf(head, ""), fmt.Sprintf(head, ", ollama:llama3")
	none := strings.Replace(one, "openai:gpt-4.1-mini", "ollama:llama3", 1)
	for _, tt := range []struct {
		file, says string // the fault, or else the warning
		fault      bool
		runs       int // in one batch; 0: there are no batches
		deadline   time.Duration
	}{
		{file: one + "batch: prefer\n", runs: 1000, deadline: 24 * time.Hour},
		{file: one + "batch: {}\n", runs: 1000, deadline: 24 * time.Hour},
		{file: one + "batch: {runs: 50, deadline: 2h}\n", runs: 50, deadline: 2 * time.Hour},
		{file: one + "batch: off\n"},
		{file: one + "batch: {use: off, runs: 50}\n"},
		{file: both + "batch: prefer\n", runs: 1000, deadline: 24 * time.Hour, says: "asked one by one: ollama:llama3"},
		{file: none + "batch: prefer\n", fault: true, says: "no model of the evaluation has a batch endpoint: ollama:llama3"},
		{file: one + "batch: always\n", fault: true, says: "prefer, off"},
		{file: one + "batch: {runs: 20000}\n", fault: true, says: "batch.runs"},
		{file: one + "batch: {deadline: 10}\n", fault: true, says: "batch.deadline"},
		{file: one + "batch: prefer\ngrounding: required\n", fault: true, says: "a batch cannot search the web"},
		{file: strings.Replace(one, "all", "sample:1", 1) + "batch: prefer\nuntil: {}\n", fault: true, says: "remove batch, or until"},
		{
			file: strings.Replace(one, "openai:gpt-4.1-mini", "{model: \"openai:gpt-4.1-mini\", overrides: {service_tier: flex}}", 1) +
				"batch: prefer\n",
			fault: true, says: "has the service tier flex",
		},
	} {
		files := with(two, "eval.yaml", tt.file)
		if tt.fault {
			if problems, got := problemsOf(t, files, Options{}); len(problems) != 1 || !strings.Contains(got, tt.says) {
				t.Errorf("%s\n%d problems: %s\nwant one that says %q", tt.file, len(problems), got, tt.says)
			}
			continue
		}
		s := load(t, files, Options{})
		batch := s.Settings.Batch
		switch {
		case (batch != nil) != (tt.runs > 0):
			t.Errorf("%s\nthe settings have %+v", tt.file, batch)
		case batch != nil && (strings.Join(batch.Models, " ") != "openai:gpt-4.1-mini" || batch.Runs != tt.runs || batch.Deadline != tt.deadline):
			t.Errorf("%s\ngot %+v", tt.file, batch)
		}
		if warned := fmt.Sprint(s.Warnings); tt.says != "" && !strings.Contains(warned, tt.says) {
			t.Errorf("%s\nwarned %s, want %q", tt.file, warned, tt.says)
		}
	}
}
