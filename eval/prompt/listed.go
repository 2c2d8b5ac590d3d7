package prompt

import (
	"fmt"

	"github.com/evalfleet/evalfleet/eval"
)

// Listed makes the prompt of a listed run: one message of the user's, with the text
// of the instructions, an empty line and the text of the input. Both texts stand
// byte for byte as they are in their files; where one is empty, the other stands
// alone. No schema is asked for.
//
// There are no tags around the texts, as around judged documents, because the
// instructions may say themselves how the input is to be read, and whoever lists a
// run wrote or chose both. The instructions come first, so that all runs that share
// them begin alike and providers can reuse what they computed for them.
func Listed(instructions, input eval.Document, texts map[string]string) (Prompt, error) {
	var content string
	for _, file := range []eval.Document{instructions, input} {
		text, ok := texts[file.Hash]
		if !ok {
			return Prompt{}, fmt.Errorf("text of %q (%s) is missing", file.ID, file.Hash)
		}
		if content != "" && text != "" {
			content += "\n\n"
		}
		content += text
	}
	return Prompt{Messages: []Message{{Role: "user", Content: content}}}, nil
}
