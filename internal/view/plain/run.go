package plain

import (
	"fmt"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/view/show"
)

// Run returns a run as text. Texts of documents and judges are complete, with their own line breaks. Lines are folded
// at columns, or not at all if columns is 0.
func Run(r *show.Run, now time.Time, columns int) string {
	var out strings.Builder
	fmt.Fprintf(&out, "run %s of %s\n", r.ID, harmless.OneLine(r.Name))
	for _, fact := range r.Facts(now) {
		fmt.Fprintf(&out, "  %-11s  %s\n", fact.Name, harmless.OneLine(fact.Text))
	}
	writeRebuilt(&out, r)
	for i, call := range r.Calls {
		writeCall(&out, i+1, call)
	}
	if columns > 0 {
		return lines.Fold(out.String(), columns)
	}
	return out.String()
}

func writeRebuilt(out *strings.Builder, r *show.Run) {
	if r.Given {
		out.WriteString("\nNo prompt and no calls: the verdict was read from a file.\n")
		return
	}
	if len(r.Prompt) == 0 {
		out.WriteString("\nNo prompt: both documents have the same text, or building it failed.\n")
		return
	}
	out.WriteString("\nprompt, rebuilt from the plan and the documents:\n")
	writeTurns(out, r.Prompt)
}

func writeTurns(out *strings.Builder, turns []show.Turn) {
	for _, turn := range turns {
		fmt.Fprintf(out, "  %s:\n", turn.Role)
		writeText(out, turn.Content)
	}
}

// writeText writes text from others, indented.
func writeText(out *strings.Builder, text string) {
	for line := range strings.Lines(strings.TrimRight(harmless.Text(text), "\n") + "\n") {
		out.WriteString(strings.TrimRight("    "+line, " \n") + "\n")
	}
}

func writeCall(out *strings.Builder, n int, c show.Call) {
	fmt.Fprintf(out, "\ncall %d: %s\n", n, harmless.OneLine(c.Title()))
	for _, line := range c.How() {
		fmt.Fprintf(out, "  %s\n", harmless.OneLine(line))
	}
	if c.Error != "" {
		fmt.Fprintf(out, "  error: %s\n", harmless.OneLine(c.Error))
	}
	if len(c.Dropped) > 0 {
		fmt.Fprintf(out, "  not sent: %s (refused by the model)\n", harmless.OneLine(strings.Join(c.Dropped, ", ")))
	}
	writeEvidence(out, c)
	writeSent(out, c)
	if c.Text != "" {
		out.WriteString("  answer:\n")
		writeText(out, c.Text)
	}
}

// writeEvidence writes the evidence of searches and reasoning in an answer.
func writeEvidence(out *strings.Builder, c show.Call) {
	if g := c.Grounding; g != nil && g.Evident() {
		fmt.Fprintf(out, "  searches: %d\n", g.Searches)
		for _, query := range g.Queries {
			fmt.Fprintf(out, "    for %s\n", harmless.OneLine(query))
		}
		for _, source := range g.Sources {
			fmt.Fprintf(out, "    %s\n", strings.TrimSpace("source "+harmless.OneLine(source.URL)+" "+harmless.OneLine(source.Title)))
		}
	}
	if reasoned := c.Reasoned(); reasoned != "" {
		fmt.Fprintf(out, "  reasoned: %s\n", reasoned)
	}
	if c.Reasoning != "" {
		out.WriteString("  reasoning shown:\n")
		writeText(out, c.Reasoning)
	}
}

// writeSent writes what a call was sent in addition to the run's prompt.
func writeSent(out *strings.Builder, c show.Call) {
	if len(c.Turns) > 0 {
		out.WriteString("  sent " + c.Where() + " the prompt:\n")
		writeTurns(out, c.Turns)
	}
	if c.Insisted != "" {
		out.WriteString("  added to the last turn:\n")
		writeText(out, strings.TrimSpace(c.Insisted))
	}
}
