package transport

import (
	"bytes"
	"encoding/json"
	"math"

	"github.com/evalfleet/evalfleet/providers"
)

// LogProbs are the tokens of an answer in the form that OpenAI's dialects and Ollama's have in common.
type LogProbs []providers.Token

// UnmarshalJSON never fails: what cannot be read is left out, and a log probability that is missing or no number is NaN.
func (l *LogProbs) UnmarshalJSON(raw []byte) error {
	for _, one := range AtMost[listedToken](raw, providers.MostLogProbs) {
		token := providers.Token{Alternative: one.alternative()}
		for _, other := range one.Top {
			token.Top = append(token.Top, other.alternative())
		}
		*l = append(*l, token)
	}
	return nil
}

type listedToken struct {
	tokenOnWire
	Top topTokens `json:"top_logprobs"`
}

type topTokens []tokenOnWire

// UnmarshalJSON never fails; see LogProbs.
func (t *topTokens) UnmarshalJSON(raw []byte) error {
	*t = AtMost[tokenOnWire](raw, providers.TopLogProbs+1)
	return nil
}

// tokenOnWire is a token with its log probability. Bytes are those of a token that is a part of a character, which its
// text cannot show.
type tokenOnWire struct {
	Token   string   `json:"token"`
	Bytes   octets   `json:"bytes"`
	LogProb *LogProb `json:"logprob"`
}

func (t tokenOnWire) alternative() providers.Alternative {
	out := providers.Alternative{Text: t.Token, LogProb: t.LogProb.Value()}
	if len(t.Bytes) > 0 {
		out.Text = string(t.Bytes)
	}
	return out
}

// octets is a text as a list of the numbers of its bytes.
type octets []byte

// UnmarshalJSON never fails: it reads no text if a number is none of a byte.
func (o *octets) UnmarshalJSON(raw []byte) error {
	const longest = 1024 // of any vocabulary
	*o = nil
	all := AtMost[float64](raw, longest)
	for _, n := range all {
		if n != math.Trunc(n) || n < 0 || n > math.MaxUint8 {
			return nil
		}
	}
	for _, n := range all {
		*o = append(*o, byte(n))
	}
	return nil
}

// LogProb is a log probability.
type LogProb float64

// UnmarshalJSON never fails: what is no number is NaN.
func (p *LogProb) UnmarshalJSON(raw []byte) error {
	var n float64
	if json.Unmarshal(raw, &n) != nil {
		n = math.NaN()
	}
	*p = LogProb(n)
	return nil
}

// Value returns the number; NaN if there is none.
func (p *LogProb) Value() float64 {
	if p == nil {
		return math.NaN()
	}
	return float64(*p)
}

// AtMost reads the first elements of a JSON list, up to a number of them. It ends at the first that has another form, so
// that a hostile list takes no more memory than the elements that are used.
func AtMost[T any](raw []byte, most int) (all []T) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if open, err := decoder.Token(); err != nil || open != json.Delim('[') {
		return nil
	}
	for len(all) < most && decoder.More() {
		var one T
		if decoder.Decode(&one) != nil {
			return all
		}
		all = append(all, one)
	}
	return all
}
