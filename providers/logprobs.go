package providers

// LogProbs says whether a model gives the log probabilities of its answer's tokens.
type LogProbs string

// The values.
const (
	LogProbsUnknown LogProbs = "" // it is not asked for them
	LogProbsGiven   LogProbs = "yes"
	LogProbsNone    LogProbs = "no"
)

// Token is a part of an answer's text with its log probability, and the most probable tokens at its place.
type Token struct {
	Alternative
	Top []Alternative // the token itself may be among them, and is, where vendors keep to their documentation
}

// Alternative is a token that a model could say, with its natural log probability; NaN: the provider told none.
type Alternative struct {
	Text    string
	LogProb float64
}

const (
	// TopLogProbs is how many of the most probable tokens a request asks for at each place: the most that any vendor gives.
	TopLogProbs = 20
	// MostLogProbs bounds the tokens of an answer that are read. No answer that is a verdict has as many.
	MostLogProbs = 100_000
)
