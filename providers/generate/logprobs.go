package generate

import (
	"encoding/json"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// logProbs are the log probabilities of a candidate's tokens: those chosen, and the most probable at each place.
type logProbs struct {
	Chosen chosenTokens `json:"chosenCandidates"`
	Top    topTokens    `json:"topCandidates"`
}

// UnmarshalJSON never fails: fields of unknown form are left empty.
func (l *logProbs) UnmarshalJSON(raw []byte) error {
	type fields logProbs
	_ = json.Unmarshal(raw, (*fields)(l)) // keeps what could be read
	return nil
}

type tokenOnWire struct {
	Token   string             `json:"token"`
	LogProb *transport.LogProb `json:"logProbability"`
}

func (t tokenOnWire) alternative() providers.Alternative {
	return providers.Alternative{Text: t.Token, LogProb: t.LogProb.Value()}
}

type chosenTokens []tokenOnWire

// UnmarshalJSON never fails; see transport.AtMost.
func (c *chosenTokens) UnmarshalJSON(raw []byte) error {
	*c = transport.AtMost[tokenOnWire](raw, providers.MostLogProbs)
	return nil
}

type topTokens []struct {
	Candidates topCandidates `json:"candidates"`
}

// UnmarshalJSON never fails; see transport.AtMost.
func (t *topTokens) UnmarshalJSON(raw []byte) error {
	*t = transport.AtMost[struct {
		Candidates topCandidates `json:"candidates"`
	}](raw, providers.MostLogProbs)
	return nil
}

type topCandidates []tokenOnWire

// UnmarshalJSON never fails; see transport.AtMost.
func (c *topCandidates) UnmarshalJSON(raw []byte) error {
	*c = transport.AtMost[tokenOnWire](raw, providers.TopLogProbs+1)
	return nil
}

// tokens returns the chosen tokens, each with the most probable ones at its place.
func (l logProbs) tokens() (all []providers.Token) {
	for i, chosen := range l.Chosen {
		token := providers.Token{Alternative: chosen.alternative()}
		if i < len(l.Top) {
			for _, other := range l.Top[i].Candidates {
				token.Top = append(token.Top, other.alternative())
			}
		}
		all = append(all, token)
	}
	return all
}
