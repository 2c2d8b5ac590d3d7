package show

import (
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/providers"
)

// sent shows the prompt as it was sent, and the messages that each call was sent besides it or
// instead: a repair the answer before and its error, the second of two calls the answer of the
// first, one after an answer without evidence firmer words.
func (f *reading) sent(run *Run, built prompt.Prompt) {
	run.Prompt = turnsOf(built.Messages)
	if built.Written != nil {
		sentTurns(run, *built.Written)
		return
	}
	var answer, prose string
	var lacked bool
	for i := range run.Calls {
		call := &run.Calls[i]
		if i > 0 && call.Generation != run.Calls[i-1].Generation {
			answer, prose, lacked = "", "", false
		}
		if call.Stage == "grounded" {
			run.Prompt = turnsOf(built.Prose())
		}
		call.Alone = call.Stage == "json" || call.Stage == "repair" && prose != ""
		if call.Alone {
			call.Turns = turnsOf(built.Jsonify(prose))
		}
		if call.Stage == "repair" && run.Kind != eval.KindRuns { // a listed run is sent the same again
			call.Turns = append(call.Turns, turnsOf(prompt.Repair(answer, f.problem(run.Kind, answer)))...)
		}
		if lacked && !call.Alone {
			call.Insisted = prompt.Insist("", run.Grounded, run.Reasoned)
		}
		switch call.Class {
		case providers.Ungrounded, providers.Unreasoned:
			lacked = true
		case "":
			answer = call.Text
			if call.Stage == "grounded" {
				prose = call.Text
			}
		}
	}
}

// sentTurns shows the messages that each call of a prompt of several turns was sent after the
// first: the answers before it, and the user's replies.
func sentTurns(run *Run, w eval.Conversation) {
	var answers []string
	for i := range run.Calls {
		call := &run.Calls[i]
		if i > 0 && call.Generation != run.Calls[i-1].Generation || len(answers) == len(w.Turns) {
			answers = nil
		}
		call.Turns = turnsOf(w.At(answers)[len(w.Turns[0]):])
		if call.Class == "" {
			answers = append(answers, call.Text)
		}
	}
}

func turnsOf(messages []eval.Message) []Turn {
	turns := make([]Turn, len(messages))
	for i, m := range messages {
		turns[i] = Turn{m.Role, m.Content}
	}
	return turns
}
