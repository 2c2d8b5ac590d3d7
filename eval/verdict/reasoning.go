package verdict

import (
	"regexp"
	"strings"
)

// marker matches the beginning or end of the reasoning that some models write into their answers. It has two groups
// for each kind: one for the beginning, one for the end.
var marker = regexp.MustCompile(`(?i)^(?:(<think>)|(</think>)` +
	`|(<thinking>)|(</thinking>)` +
	`|(<thought>)|(</thought>)` +
	`|(<reasoning>)|(</reasoning>)` +
	`|(<seed:think>)|(</seed:think>)` + // Seed-OSS
	`|(\[THINK\])|(\[/THINK\])` + // Magistral
	`|(◁think▷)|(◁/think▷)` + // Kimi
	`|(<\|begin_of_thought\|>)|(<\|end_of_thought\|>)` + // Sky-T1, OpenThinker
	`|(<\|START_THINKING\|>)|(<\|END_THINKING\|>)` + // Command A
	// gpt-oss: a message ends at a token, or where the next one begins.
	`|(<\|channel\|>\s*(?:analysis|commentary)\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>)` +
	`|(<\|end\|>|<\|call\|>|<\|return\|>|<\|channel\|>\s*final\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>))`)

// mark is a marker in a text.
type mark struct {
	start, end int
	kind       int
	begins     bool
}

// harmony is the kind of gpt-oss's markers, which is the last. Their ends also follow messages that are not
// reasoning.
var harmony = marker.NumSubexp()/2 - 1

// marksIn finds the markers of a text. It ignores those within objects, which are parts of strings, and those in
// quotes or backticks, which are only mentioned.
func marksIn(text string, objects []object) []mark {
	var marks []mark
	for at := 0; ; at++ {
		next := strings.IndexAny(text[at:], "<[◁")
		if next < 0 {
			return marks
		}
		at += next
		for len(objects) > 0 && objects[0].end <= at {
			objects = objects[1:]
		}
		if len(objects) > 0 && objects[0].start < at {
			at = objects[0].end - 1
			continue
		}
		found := marker.FindStringSubmatchIndex(text[at:])
		if found == nil || quoted(text, at, at+found[1]) {
			continue
		}

		for group := 1; group < len(found)/2; group++ {
			if found[2*group] >= 0 {
				marks = append(marks, mark{at, at + found[1], (group - 1) / 2, group%2 == 1})
			}
		}
		at += found[1] - 1
	}
}

func quoted(text string, start, end int) bool {
	return start > 0 && end < len(text) && text[start-1] == text[end] && strings.IndexByte("`\"'", text[end]) >= 0
}

// withoutReasoning removes the reasoning from an answer, because it is a draft. objects are the objects in the text.
// It returns an error for an answer that ends within its reasoning.
func withoutReasoning(text string, objects []object) (string, error) {
	var said strings.Builder
	from := 0      // where the text that is not yet in said begins
	thinking := -1 // kind of the reasoning that has begun; -1: none
	for _, m := range marksIn(text, objects) {
		switch {
		case thinking < 0 && m.begins:
			said.WriteString(text[from:m.start] + "\n")
			thinking = m.kind
		case thinking == m.kind && !m.begins:
			thinking, from = -1, m.end
		case thinking < 0 && m.kind == harmony:
			said.WriteString(text[from:m.start] + "\n")
			from = m.end
		case thinking < 0: // the beginning was in the prompt
			said.Reset()
			from = m.end
		}
	}

	if thinking >= 0 {
		return "", problem("the answer ends within its reasoning; write the JSON object after it")
	}
	said.WriteString(text[from:])
	return said.String(), nil
}
