package prompt

import (
	"encoding/json"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
)

// pairwiseAnswer returns the format of a verdict on two documents. The verdicts on criteria come before the overall one,
// which they prepare. Criteria are values and not keys, so that a criterion can have any name.
func pairwiseAnswer(first, second string, p *eval.Pairwise) answerFormat {
	ids := []string{quote(first), quote(second)}
	winner := "the id of the better document, exactly " + ids[0] + " or " + ids[1]
	if p.Ties {
		ids = append(ids, quote(eval.Tie))
		winner += "; " + quote(eval.Tie) + " only if neither is better"
	} else {
		winner += "; choose one even if they are close"
	}

	// Built as text for speed, because every run has its own schema.
	names := `{"type":"string","enum":[` + strings.Join(ids, ",") + `]}`
	var words, properties, required string
	if len(p.Criteria) > 0 {
		words, properties = criteriaAnswer(p, names)
		required = `"criteria",`
	}
	words += "- winner_doc_id: " + winner + ".\n"
	properties += `"winner_doc_id":` + names + `,`
	required += `"winner_doc_id",`
	if p.Degrees > 0 {
		words += "- degree: by how much it is better, exactly " + degreeWords(p) + ".\n"
		properties += `"degree":` + degreeSchema(p) + `,`
		required += `"degree",`
	}
	return answerFormat{
		name:  "pairwise_verdict",
		words: words + "- reason: what decided, in one to three sentences; never empty.",
		schema: json.RawMessage(`{"type":"object","properties":{` + properties + `"reason":{"type":"string"}},"required":[` +
			required + `"reason"],"additionalProperties":false}`),
	}
}

// criteriaAnswer returns the words for the verdicts on criteria, and their property in the schema. names is the schema of
// a document's id.
func criteriaAnswer(p *eval.Pairwise, names string) (words, property string) {
	criteria := namesOf(p.Criteria)
	words = "- criteria: one entry for each criterion, every criterion once: " + quoted(criteria, ", ") + ".\n" +
		"- better: the id of the document that is better on this criterion, as for winner_doc_id.\n"
	entry := `"criterion":{"type":"string","enum":[` + quoted(criteria, ",") + `]},"better":` + names
	required := `"criterion","better"`
	if p.Degrees > 0 {
		words += "- by_degree: by how much it is better on this criterion, exactly " + degreeWords(p) + ".\n"
		entry += `,"by_degree":` + degreeSchema(p)
		required += `,"by_degree"`
	}
	return words, `"criteria":{"type":"array","items":{"type":"object","properties":{` + entry + `},"required":[` + required +
		`],"additionalProperties":false}},`
}

// degreeWords lists the degrees of a comparison.
func degreeWords(p *eval.Pairwise) string {
	said := degreesOf(p)
	if !p.Ties {
		return quoted(said, " or ")
	}
	return quoted(said[1:], " or ") + "; " + quote(said[0]) + " if neither is better"
}

func degreeSchema(p *eval.Pairwise) string {
	return `{"type":"string","enum":[` + quoted(degreesOf(p), ",") + `]}`
}

// degreesOf returns what a judge may say for a degree, the smallest first.
func degreesOf(p *eval.Pairwise) []string {
	if p.Ties {
		return append([]string{eval.Equal}, eval.DegreeWords(p.Degrees)...)
	}
	return eval.DegreeWords(p.Degrees)
}
