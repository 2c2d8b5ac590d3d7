package report

import "github.com/evalfleet/evalfleet/eval/rank"

// The JSON form of the effects; docs/formats.md describes its fields.
type (
	effectsJSON struct {
		Why         string           `json:"why,omitempty"`
		Headline    string           `json:"headline"`
		Prompts     array[levelJSON] `json:"prompts"`
		Models      array[levelJSON] `json:"models"`
		PromptRange *levelRangeJSON  `json:"prompt_range"`
		ModelRange  *levelRangeJSON  `json:"model_range"`
		More        string           `json:"differ_more"`
		Interaction *interactionJSON `json:"interaction"`
	}
	levelJSON struct {
		Name     string `json:"name"`
		Rank     int    `json:"rank"`
		RankLow  int    `json:"rank_low"`
		RankHigh int    `json:"rank_high"`
		Effect   number `json:"effect"`
		SE       number `json:"se"`
		Low      number `json:"low"`
		High     number `json:"high"`
	}
	levelRangeJSON struct {
		Highest string `json:"highest"`
		Lowest  string `json:"lowest"`
		By      number `json:"by"`
		Low     number `json:"low"`
		High    number `json:"high"`
	}
	interactionJSON struct {
		P     number               `json:"p"`
		Words string               `json:"words"`
		All   array[deviationJSON] `json:"candidates"`
	}
	deviationJSON struct {
		Candidate string `json:"candidate"`
		Prompt    string `json:"prompt"`
		Model     string `json:"model"`
		Expected  number `json:"expected"`
		By        number `json:"by"`
		SE        number `json:"se"`
		Low       number `json:"low"`
		High      number `json:"high"`
	}
)

func (r *Report) effectsJSON() *effectsJSON {
	e := r.Effects
	if e == nil {
		return nil
	}
	out := &effectsJSON{Why: e.Why, Headline: r.effectsHeadline()}
	if e.Why != "" {
		return out
	}
	levels := func(names []string, effects []rank.Effect) (all []levelJSON) {
		for k, one := range inOrder(names, effects) {
			all = append(all, levelJSON{
				one.Name, k + 1, one.RankLow, one.RankHigh, number(one.At), number(one.SE), number(one.Low), number(one.High),
			})
		}
		return all
	}
	span := func(names []string, of rank.Range) *levelRangeJSON {
		return &levelRangeJSON{names[of.Highest], names[of.Lowest], number(of.By), number(of.Low), number(of.High)}
	}

	out.Prompts, out.Models = levels(e.Prompts, e.Rows), levels(e.Models, e.Columns)
	out.PromptRange, out.ModelRange = span(e.Prompts, e.RowRange), span(e.Models, e.ColumnRange)
	out.More = map[int]string{1: "prompts", 0: "unknown", -1: "models"}[e.More]
	out.Interaction = &interactionJSON{P: number(e.P), Words: r.interactionWords()}
	for _, d := range r.deviations() {
		out.Interaction.All = append(out.Interaction.All, deviationJSON{
			d.name, d.prompt, d.model, number(d.expected), number(d.By), number(d.SE), number(d.Low), number(d.High),
		})
	}
	return out
}
