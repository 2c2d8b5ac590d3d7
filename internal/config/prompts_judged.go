package config

import (
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// answersToPrompts are the documents of an evaluation that judges answers to prompts.
type answersToPrompts struct {
	*prompted
	recorded map[string]string // by the name of their run; nil: placeholders stand for all of them
	missing  []string          // ids of documents that were not recorded
}

// expectedAnswer is the length in bytes of the text that stands for an answer of unlimited length. It is that of the
// tokens that estimates assume.
const expectedAnswer = 2000

// answeredDocuments adds a document for each recorded answer.
func (s *draft) answeredDocuments() documentSet {
	set, a := s.newDocumentSet(), s.answers
	for _, item := range a.items {
		for _, written := range a.prompts {
			for _, model := range a.models {
				candidate := a.candidate(written, model)
				id := answerID(item.id, candidate)
				text, has := a.recorded[id]
				switch {
				case a.recorded == nil:
					text = standIn(id, model)
				case !has:
					a.missing = append(a.missing, id)
					continue
				}
				set.add(foundDocument{id: id, item: item.id, candidate: candidate, text: text, facts: item.facts, at: item.at})
			}
		}
	}

	if len(s.asked.Documents) == 0 {
		s.refuse(a.at, "", "there is no answer to judge: %s failed", wording.Counted(len(a.missing), "answer"))
	}
	if set.empty > 0 {
		s.warn(a.at, "", "answers without text: %d", set.empty)
	}
	return set
}

// standIn returns a text of the length that a model's answer is expected to have. No other answer has the same.
func standIn(id string, model eval.Judge) string {
	length := expectedAnswer
	if most, bounded := model.Overrides["max_completion_tokens"].(float64); bounded {
		length = min(length, 4*int(most))
	}
	return id + strings.Repeat(" …", max(0, length-len(id))/len(" …"))
}

// describe says in the evaluation which other one made its documents.
func (a *answersToPrompts) describe(e *eval.Evaluation, by eval.ID) {
	e.Answered = &eval.Answered{Evaluation: by, Missing: slices.Sorted(slices.Values(a.missing))}
	for _, written := range a.prompts {
		for _, model := range a.models {
			candidate := eval.Candidate{Name: a.candidate(written, model), Prompt: written.name, Model: model.Name}
			e.Answered.Candidates = append(e.Answered.Candidates, candidate)
		}
	}
}

// onlyAnswers refuses keys that name other documents or other work, in a file whose documents are answers to its
// prompts.
func (s *draft) onlyAnswers(documents, runs, test, votes *value) {
	for _, other := range []*value{documents, runs, test, votes} {
		if other != nil {
			s.refuse(other.key, "move it to a file of its own", "a file with prompts judges the answers to them, and nothing else")
		}
	}
	for _, flag := range s.options.Listed.flags() {
		s.refuse(place{path: flag}, "use a file without prompts", "a file with prompts judges the answers to them, and nothing else")
	}
}
