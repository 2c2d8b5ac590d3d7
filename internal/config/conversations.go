package config

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/answers"
	"github.com/evalfleet/evalfleet/eval/foreign/prompto"
)

// messagesField is the field of a conversation in a row of documents.jsonl.
const messagesField = "messages"

// conversation makes the messages of a row that has no text the text of its document: a list of turns, with the images
// that they show. turns is false for a row without messages, and if the evaluation file names the field of the text. If ok
// is false, it has reported what is wrong with them.
func (a *answerFiles) conversation(at place, row answers.Row) (images []eval.Image, turns, ok bool) {
	s := a.set.draft
	_, has := row.Values[messagesField].([]any)
	if !a.plain || !has || a.fields.Text != "" || row.Values["text"] != nil {
		return nil, false, true
	}
	at.path = messagesField
	line, err := json.Marshal(map[string]any{"prompt": row.Values[messagesField]})
	var written eval.Conversation
	if err == nil {
		written, err = prompto.Read(string(line))
	}
	if err == nil && len(written.Turns) != 1 {
		err = fmt.Errorf("it is not a list of messages")
	}
	if err != nil {
		s.refuse(at, `want [{"role": "user", "content": "…"}, …]`, "the conversation cannot be read: %v", err)
		return nil, false, false
	}

	var said []eval.Turn
	for _, m := range written.Turns[0] {
		turn, from := eval.Turn{Role: m.Role}, 0
		for _, shown := range m.Images {
			image, ok := s.namedImage(at, shown.Name)
			if !ok {
				return nil, false, false
			}
			if shown.Offset > from {
				turn.Parts = append(turn.Parts, eval.Part{Text: m.Content[from:shown.Offset]})
				from = shown.Offset
			}
			turn.Parts = append(turn.Parts, eval.Part{Image: image.Hash})
			if !slices.ContainsFunc(images, func(known eval.Image) bool { return known.Hash == image.Hash }) {
				images = append(images, image)
			}
		}
		if from < len(m.Content) || len(turn.Parts) == 0 {
			turn.Parts = append(turn.Parts, eval.Part{Text: m.Content[from:]})
		}
		said = append(said, turn)
	}
	row.Values["text"] = eval.EncodeTurns(said)
	return images, true, true
}
