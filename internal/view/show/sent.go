package show

import (
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/providers"
)

// sent adds the prompt as it was sent, and the messages of each call in addition to the prompt or instead of it. A
// repair has the earlier answer and its error. The second of two calls has the answer of the first. A call after an
// answer without evidence asks for it more firmly.
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

// sentTurns adds the messages of each call after the first of a prompt of several turns: the earlier answers, and the
// user's replies.
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
