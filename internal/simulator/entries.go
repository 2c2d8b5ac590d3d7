package simulator

import "encoding/json"

// spoilEntries removes the last omit entries from an answer that has several, and makes the scores
// of the first corrupt ones invalid. Models do that when asked for much at once. An answer with one
// entry, or of another form, is unchanged.
func spoilEntries(answer string, omit, corrupt int) string {
	var said struct {
		Evaluations []map[string]any `json:"evaluations"`
	}
	if omit+corrupt == 0 || json.Unmarshal([]byte(answer), &said) != nil || len(said.Evaluations) < 2 {
		return answer
	}
	said.Evaluations = said.Evaluations[:max(len(said.Evaluations)-omit, 0)]
	for i := range min(corrupt, len(said.Evaluations)) {
		said.Evaluations[i]["score"] = "high"
	}
	return encode(said)
}
