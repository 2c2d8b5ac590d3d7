package simulator

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"
)

// mostTop is the greatest number of alternatives that may be requested for a token.
const mostTop = 20

// spoken is a token of an answer, with the most probable tokens at its place, itself among them.
type spoken struct {
	chance
	top []chance
}

// chance is a token with its probability.
type chance struct {
	text string
	p    float64
}

// wantsLogProbs notes a request for log probabilities, and returns what is wrong with it.
func (r *request) wantsLogProbs(wanted bool, top *int) error {
	r.logProbs = wanted
	switch {
	case top == nil:
		return nil
	case !wanted:
		return complain("The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled.")
	case *top < 0 || *top > mostTop:
		return complain("Invalid 'top_logprobs': expected a value between 0 and %d, but got %d instead.", mostTop, *top)
	}
	r.top = *top
	return nil
}

// How sure a judge is of a verdict.
const (
	sureAt    = 4.0  // points of quality at which the odds for the better text are e to 1
	drawShare = 0.5  // of what is not for the winner, the part for a tie, where one is allowed
	sureOfTie = 0.6  // the probability of a tie that is said
	toLabels  = 0.99 // what the names of documents have together; other words have the rest
)

// tokensOf returns the tokens of an answer, if they are requested. Where a winner is named, the names of the others are
// among the alternatives, each as likely as the judge finds it.
func (c *call) tokensOf(text string) (all []spoken) {
	if !c.req.logProbs {
		return nil
	}
	winners, odds := c.odds(text)
	const before = `"winner_doc_id":"`
	at := strings.Index(text, before) + len(before)
	if at < len(before) || odds == nil {
		at = len(text)
	}
	style := hashOf("tokens", c.req.model, text) % 3

	for from := 0; from < len(text); {
		end := from + tokenLength(text[from:])
		switch { // as vocabularies join quotes to what they enclose
		case style == 1 && at < len(text) && from == at-1:
			end = at + tokenLength(text[at:])
		case style == 2 && from >= at && strings.HasPrefix(text[end:], `",`):
			end += len(`",`)
		}
		all = append(all, c.spoken(text, from, end, at, winners, odds))
		from = end
	}
	return all
}

// spoken returns the token text[from:end], where the name of the winner begins at a position.
func (c *call) spoken(text string, from, end, at int, winners []string, odds []float64) spoken {
	said := text[from:end]
	s := spoken{chance: chance{said, 1 - 1.0/32}, top: []chance{{"The", 1.0 / 64}, {" ", 1.0 / 128}}}
	if at < end && at < len(text) {
		if named := named(text, from, end, at, winners, odds); len(named) > 1 {
			slices.SortFunc(named, func(a, b chance) int { return cmp.Compare(b.p, a.p) })
			s.top = []chance{{"The", (1 - toLabels) / 2}, {" ", (1 - toLabels) / 4}}
			for _, one := range named {
				if one.text == said {
					s.p = one.p
				} else {
					s.top = append(s.top, one)
				}
			}
		}
	}
	s.top = append(s.top, s.chance)
	slices.SortStableFunc(s.top, func(a, b chance) int { return cmp.Compare(b.p, a.p) })
	s.top = s.top[:min(len(s.top), c.req.top)]
	return s
}

// named returns the tokens at a place with which the possible winners go on, given what is said of the name so far.
func named(text string, from, end, at int, winners []string, odds []float64) (all []chance) {
	before, lead := text[at:max(from, at)], text[min(from, at):at]
	length := end - max(from, at)

	sum := 0.0
	for k, winner := range winners {
		rest, ok := strings.CutPrefix(winner+`","`, before)
		if !ok {
			continue
		}
		token := lead + rest[:min(length, len(rest))]
		if !strings.HasSuffix(text[from:end], `",`) {
			token = lead + strings.TrimRight(rest[:min(length, len(rest))], `",`)
		} else if name, _, _ := strings.Cut(rest, `"`); len(rest) > len(name) {
			token = lead + name + `",`
		}
		sum += odds[k]
		if i := slices.IndexFunc(all, func(c chance) bool { return c.text == token }); i >= 0 {
			all[i].p += odds[k]
		} else {
			all = append(all, chance{token, odds[k]})
		}
	}

	for i := range all {
		all[i].p *= toLabels / sum
	}
	return all
}

// odds returns what an answer may say who has won, and how likely each is; nil if it names no winner.
func (c *call) odds(text string) (winners []string, odds []float64) {
	var said struct {
		Winner string `json:"winner_doc_id"`
	}
	shown := parsePrompt(c.req.messages)
	a := parseSchema(cmp.Or(c.req.schema, shown.schema))
	won := -1
	if json.Unmarshal([]byte(text), &said) == nil {
		won = slices.Index(a.winners, said.Winner)
	}
	if won < 0 || len(shown.documents) != 2 {
		return nil, nil
	}

	j, ok := judges[c.req.model]
	if !ok {
		j = judges[defaultJudge]
	}
	by := j.compare(c.req.model, "", shown.documents[0].text, shown.documents[1].text, false).by
	sure := 1 / (1 + math.Exp(-by/sureAt))
	if said.Winner == tie {
		sure = sureOfTie
	}
	odds = make([]float64, len(a.winners))
	left := 1 - sure
	for k, name := range a.winners {
		switch {
		case k == won:
			odds[k] = sure
		case said.Winner == tie:
			odds[k] = left / float64(len(a.winners)-1)
		case name == tie:
			odds[k] = left * drawShare
		case slices.Contains(a.winners, tie):
			odds[k] = left * (1 - drawShare)
		default:
			odds[k] = left
		}
	}
	return a.winners, odds
}

// tokenLength returns the length of a text's first token: up to five letters or digits, or one other character.
func tokenLength(text string) int {
	const longest = 5
	for i, r := range text {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", r) {
			if i == 0 {
				return len(string(r))
			}
			return i
		}
		if i == longest {
			return i
		}
	}
	return len(text)
}

// openAILogProbs returns tokens in the form of OpenAI's dialects and Ollama's.
func openAILogProbs(all []spoken) []any {
	form := func(c chance) map[string]any {
		octets := make([]int, len(c.text))
		for i := range octets {
			octets[i] = int(c.text[i])
		}
		return map[string]any{"token": c.text, "bytes": octets, "logprob": math.Log(c.p)}
	}
	out := []any{}
	for _, s := range all {
		token, top := form(s.chance), []any{}
		for _, other := range s.top {
			top = append(top, form(other))
		}
		token["top_logprobs"] = top
		out = append(out, token)
	}
	return out
}

// googleLogProbs returns tokens in the form of generateContent.
func googleLogProbs(all []spoken) map[string]any {
	form := func(c chance) map[string]any {
		return map[string]any{"token": c.text, "tokenId": int(hashOf(c.text) % 200_000), "logProbability": math.Log(c.p)}
	}
	chosen, top := []any{}, []any{}
	for _, s := range all {
		var most []any
		for _, other := range s.top {
			most = append(most, form(other))
		}
		chosen, top = append(chosen, form(s.chance)), append(top, map[string]any{"candidates": most})
	}
	return map[string]any{"chosenCandidates": chosen, "topCandidates": top}
}
