package prompt

import (
	"fmt"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/openaibatch"
	"github.com/evalfleet/evalfleet/eval/foreign/prompto"
)

func written(p *eval.Prompts, row int, texts map[string]string) (Prompt, error) {
	of := p.Rows[row]
	line, ok := texts[of.Hash]
	if !ok {
		return Prompt{}, fmt.Errorf("text of %q (%s) is missing", of.ID, of.Hash)
	}
	w, err := ReadRow(p.Format, line)
	if err != nil {
		return Prompt{}, err
	}
	if err := show(w, of, texts); err != nil {
		return Prompt{}, err
	}
	return Prompt{Messages: w.At(nil), Written: &w}, nil
}

// show sets the images of a conversation, which are those of its row in the same order.
func show(w eval.Conversation, row eval.Document, texts map[string]string) error {
	k := 0
	for _, turn := range w.Turns {
		for _, m := range turn {
			for i := range m.Images {
				if k == len(row.Images) {
					return fmt.Errorf("%q shows an image that is not stored", row.ID)
				}
				content, ok := texts[row.Images[k].Hash]
				if !ok {
					return fmt.Errorf("image %q (%s) is missing", row.Images[k].Name, row.Images[k].Hash)
				}
				m.Images[i].Image, m.Images[i].Content = row.Images[k], content
				k++
			}
		}
	}
	return nil
}

// ReadRow parses the prompt of one of eval.Prompts' rows, whose text is line. Errors are written for the author of
// the prompt.
func ReadRow(format eval.PromptFormat, line string) (eval.Conversation, error) {
	switch format {
	case eval.PromptsBatch:
		return openaibatch.Read(line)
	case eval.PromptsExperiment, eval.PromptsTemplates:
		return prompto.Read(line)
	}
	return eval.Conversation{}, fmt.Errorf("prompts of the format %q cannot be read here", format)
}
