package report

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
)

// number is written as null if it is NaN or infinite, and otherwise with nine digits, because the last digits may
// differ between processors.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', 9, 64), nil
}

// array is written as [] rather than null if it is nil.
type array[T any] []T

func (l array[T]) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}

// The JSON form; docs/formats.md describes its fields.
type (
	reportJSON struct {
		Version        int                   `json:"version"`
		Evaluation     evaluationJSON        `json:"evaluation"`
		Options        results.Choices       `json:"options"`
		Headline       string                `json:"headline"`
		Reliance       *relianceJSON         `json:"reliance"`
		Notes          array[string]         `json:"notes"`
		Runs           runsJSON              `json:"runs"`
		Verdicts       int                   `json:"verdicts"`
		Scores         int                   `json:"scores"`
		First          *time.Time            `json:"first"`
		Last           *time.Time            `json:"last"`
		RankedBy       string                `json:"ranked_by"`
		Rankings       array[groupJSON]      `json:"rankings"`
		Unranked       array[string]         `json:"unranked"`
		Categories     *categoriesJSON       `json:"categories"`
		Items          array[itemJSON]       `json:"items"`
		Missing        *missingJSON          `json:"missing"`
		Given          *givenJSON            `json:"given,omitempty"` // the verdicts were read from files
		Answers        *answersJSON          `json:"answers,omitempty"`
		Checks         []checkJSON           `json:"checks,omitempty"`
		Rubric         []rubricPartJSON      `json:"rubric,omitempty"`
		History        []eval.Standing       `json:"history,omitempty"`
		Effects        *effectsJSON          `json:"effects,omitempty"`
		ByCriteria     *byCriteriaJSON       `json:"by_criteria,omitempty"`
		Soft           *softJSON             `json:"soft_verdicts,omitempty"`
		Escalation     *escalationJSON       `json:"escalation,omitempty"`
		OverTime       *overTimeJSON         `json:"judges_over_time,omitempty"`
		Intervals      *Intervals            `json:"intervals"`
		Fit            *fitJSON              `json:"fit"`
		Cycles         cyclesJSON            `json:"cycles"`
		Length         lengthJSON            `json:"length"`
		Judges         array[judgeJSON]      `json:"judges"`
		Agreement      *agreementJSON        `json:"agreement"`
		ScoreAgreement array[*agreementJSON] `json:"score_agreement"`
		Panel          *panelJSON            `json:"panel"`
		People         *peopleJSON           `json:"people"`
		Listed         array[listedJSON]     `json:"listed"`
		Progress       array[progressJSON]   `json:"progress"`
		Failures       array[failureJSON]    `json:"failures"`
		Calls          array[callsJSON]      `json:"calls"`
		Waits          array[waitJSON]       `json:"waits"`
		Statistics     results.Statistics    `json:"statistics"`
	}
	relianceJSON struct {
		Level       Level  `json:"level"`
		Text        string `json:"text"`
		Agree       number `json:"judges_agree"`
		Kappa       number `json:"judges_kappa"`
		Alpha       number `json:"judges_alpha"`
		Order       number `json:"order_changes"`
		People      number `json:"people_agree"`
		PeopleKappa number `json:"people_kappa"`

		Evidence array[evidenceJSON] `json:"evidence"`
	}
	evidenceJSON struct {
		Of    string `json:"of"`
		Level Level  `json:"level"`
		Value number `json:"value"`
		Why   string `json:"why,omitempty"`
	}
	givenJSON struct {
		Order    eval.Order            `json:"order"` // "unknown": it was not recorded which text was shown first
		Separate bool                  `json:"separate"`
		Repeated int                   `json:"repeated_rows"`
		Files    array[eval.GivenFile] `json:"files"`
	}
	evaluationJSON struct {
		ID        string         `json:"id"`
		Name      string         `json:"name"`
		Submitted *time.Time     `json:"submitted"`
		Finished  *time.Time     `json:"finished"`
		Cancelled *time.Time     `json:"cancelled"`
		Stopped   *results.Stop  `json:"stopped,omitempty"`
		Settings  array[setting] `json:"settings"`
	}
	runsJSON struct {
		Planned   int `json:"planned"`
		Succeeded int `json:"succeeded"`
		Failed    int `json:"failed"`
		Cancelled int `json:"cancelled"`
	}
	groupJSON struct {
		Item        string               `json:"item"`
		Separable   bool                 `json:"separable"`
		Regularised bool                 `json:"regularised"`
		Candidates  array[candidateJSON] `json:"candidates"`
		Neighbours  []neighbourJSON      `json:"neighbours,omitempty"`
		Tiers       array[tierJSON]      `json:"tiers"`    // best first; empty without abilities
		BestSet     *bestSetJSON         `json:"best_set"` // the candidates that may be the best; null without abilities
		Beats       array[[]number]      `json:"beats"`
	}
	candidateJSON struct {
		Candidate    string               `json:"candidate"`
		Rank         int                  `json:"rank"`
		RankLow      *int                 `json:"rank_low"`
		RankHigh     *int                 `json:"rank_high"`
		Ability      number               `json:"ability"`
		SE           number               `json:"se"`
		Low          number               `json:"low"`
		High         number               `json:"high"`
		ModelSE      number               `json:"model_se"`
		BeatsNext    number               `json:"beats_next"`
		MarginalLow  *int                 `json:"marginal_rank_low"`
		MarginalHigh *int                 `json:"marginal_rank_high"`
		Best         number               `json:"p_best"`
		Tier         *int                 `json:"tier"`        // from 1: an index into tiers
		MayBeBest    *bool                `json:"may_be_best"` // whether it is in best_set
		Elo          number               `json:"elo"`
		EloLow       number               `json:"elo_low"`
		EloHigh      number               `json:"elo_high"`
		WinLow       number               `json:"win_rate_low"`
		WinHigh      number               `json:"win_rate_high"`
		ScoreLow     number               `json:"score_low"`
		ScoreHigh    number               `json:"score_high"`
		Lead         number               `json:"lead"`
		LeadLow      number               `json:"lead_low"`
		LeadHigh     number               `json:"lead_high"`
		Wins         int                  `json:"wins"`
		Losses       int                  `json:"losses"`
		Ties         int                  `json:"ties"`
		WinRate      number               `json:"win_rate"`
		Weighted     *weightedJSON        `json:"weighted_win_rate,omitempty"`
		Score        *scoreJSON           `json:"score,omitempty"`
		Scores       map[string]scoreJSON `json:"scores,omitempty"`
		For          []Reason             `json:"for,omitempty"`
		Against      []Reason             `json:"against,omitempty"`
	}
	scoreJSON struct {
		Mean number `json:"mean"`
		N    int    `json:"n"`
	}
	fitJSON struct {
		LogLikelihood    number      `json:"log_likelihood"`
		Deviance         number      `json:"deviance"`
		DegreesOfFreedom int         `json:"degrees_of_freedom"`
		Iterations       int         `json:"iterations"`
		Length           *effectJSON `json:"length"`
	}
	effectJSON struct {
		Effect      number `json:"effect"`
		SE          number `json:"se"`
		Low         number `json:"low"`
		High        number `json:"high"`
		Regularised bool   `json:"regularised"`
	}
	cyclesJSON struct {
		Circular int    `json:"circular"`
		Triples  int    `json:"triples"`
		Share    number `json:"share"`
	}
	lengthJSON struct {
		LongerWins  int    `json:"longer_wins"`
		ShorterWins int    `json:"shorter_wins"`
		Correlation number `json:"correlation"`
	}
	judgeJSON struct {
		Name       string               `json:"name"`
		Model      string               `json:"model"`
		Verdicts   int                  `json:"verdicts"`
		FirstWins  *int                 `json:"first_wins"`
		SecondWins *int                 `json:"second_wins"`
		Ties       int                  `json:"ties"`
		Identical  int                  `json:"identical"`
		Gated      int                  `json:"gated,omitempty"`
		Fallbacks  int                  `json:"fallbacks"`
		Own        int                  `json:"own"`
		Failed     int                  `json:"failed"`
		Order      *effectJSON          `json:"order_effect"`
		Scale      *effectJSON          `json:"scale"`
		Confounded bool                 `json:"confounded"`
		TieNu      number               `json:"tie_nu"`
		BothOrders swapsJSON            `json:"both_orders"`
		Length     lengthJSON           `json:"length"`
		Cycles     cyclesJSON           `json:"cycles"`
		Scores     map[string]scoreJSON `json:"scores,omitempty"`
		Card       *cardJSON            `json:"scorecard"`
		Rankings   array[groupJSON]     `json:"rankings"`
	}
	swapsJSON struct {
		Pairs        int    `json:"pairs"`
		Consistent   int    `json:"consistent"`
		AlwaysFirst  int    `json:"always_first"`
		AlwaysSecond int    `json:"always_second"`
		HalfTied     int    `json:"half_tied"`
		Consistency  number `json:"consistency"`
		Flipped      number `json:"flipped"`
	}
	agreementJSON struct {
		Name         string               `json:"name,omitempty"`
		Raters       []string             `json:"raters"`
		Units        int                  `json:"units"`
		Complete     int                  `json:"complete"`
		Fleiss       number               `json:"fleiss"`
		FleissLow    number               `json:"fleiss_low"`
		FleissHigh   number               `json:"fleiss_high"`
		Alpha        number               `json:"alpha_nominal"`
		AlphaLow     number               `json:"alpha_nominal_low"`
		AlphaHigh    number               `json:"alpha_nominal_high"`
		Ordinal      *number              `json:"alpha_ordinal,omitempty"`
		OrdinalLow   *number              `json:"alpha_ordinal_low,omitempty"`
		OrdinalHigh  *number              `json:"alpha_ordinal_high,omitempty"`
		Interval     *number              `json:"alpha_interval,omitempty"`
		IntervalLow  *number              `json:"alpha_interval_low,omitempty"`
		IntervalHigh *number              `json:"alpha_interval_high,omitempty"`
		Within       *number              `json:"alpha_within_items,omitempty"`
		WithinLow    *number              `json:"alpha_within_items_low,omitempty"`
		WithinHigh   *number              `json:"alpha_within_items_high,omitempty"`
		Pairs        array[raterPairJSON] `json:"pairs"`
	}
	raterPairJSON struct {
		A         string `json:"a"`
		B         string `json:"b"`
		Units     int    `json:"units"`
		Raw       number `json:"raw"`
		Cohen     number `json:"cohen"`
		CohenLow  number `json:"cohen_low"`
		CohenHigh number `json:"cohen_high"`
	}
	panelJSON struct {
		Scored     int                             `json:"scored"`
		Dimensions map[string]map[string]scoreJSON `json:"dimensions"`
		Candidates map[string]map[string]scoreJSON `json:"candidates"`
		Agreement  array[*agreementJSON]           `json:"agreement"`
	}
	listedJSON struct {
		Model     string    `json:"model"`
		Runs      int       `json:"runs"`
		Succeeded int       `json:"succeeded"`
		Failed    int       `json:"failed"`
		Truncated int       `json:"truncated"`
		Used      usageJSON `json:"used"`
	}
	progressJSON struct {
		Phase     int        `json:"phase"`
		Kind      eval.Kind  `json:"kind"`
		Judge     string     `json:"judge"`
		Model     string     `json:"model"`
		Planned   int        `json:"planned"`
		Succeeded int        `json:"succeeded"`
		Failed    int        `json:"failed"`
		Cancelled int        `json:"cancelled"`
		Rows      int        `json:"rows"`
		First     *time.Time `json:"first"`
		Last      *time.Time `json:"last"`
		Used      usageJSON  `json:"used"`
	}
	failureJSON struct {
		Class    string             `json:"class"`
		Runs     int                `json:"runs"`
		Examples array[exampleJSON] `json:"examples"`
	}
	exampleJSON struct {
		Run       string   `json:"run"`
		Judge     string   `json:"judge"`
		Documents []string `json:"documents"`
		Attempts  int      `json:"attempts"`
		Error     string   `json:"error"`
	}
	callsJSON struct {
		Model  string         `json:"model"`
		Stage  string         `json:"stage"`
		Used   usageJSON      `json:"used"`
		Errors map[string]int `json:"errors"`
	}
	usageJSON struct {
		Calls      int    `json:"calls"`
		FromCache  int    `json:"from_cache"`
		Input      int64  `json:"input_tokens"`
		Output     int64  `json:"output_tokens"`
		Cached     int64  `json:"cached_tokens"`
		Written    int64  `json:"cache_write_tokens"`
		Reasoning  int64  `json:"reasoning_tokens"`
		Unreported int    `json:"unreported"`
		CostUSD    number `json:"cost_usd"`
		SavedUSD   number `json:"saved_usd"`
		Unpriced   int    `json:"unpriced"`
	}
	waitJSON struct {
		Limit   string `json:"limit"`
		Calls   int    `json:"calls"`
		Seconds number `json:"seconds"`
	}
	comparisonJSON struct {
		Version     int                 `json:"version"`
		Headline    array[string]       `json:"headline"`
		Shared      int                 `json:"shared"`
		Evaluations array[comparedJSON] `json:"evaluations"`
		Candidates  array[besideJSON]   `json:"candidates"`
		Settings    array[Difference]   `json:"settings"`
	}
	comparedJSON struct {
		ID        string     `json:"id"`
		Name      string     `json:"name"`
		Submitted *time.Time `json:"submitted"`
		RankedBy  string     `json:"ranked_by"`
		Verdicts  int        `json:"verdicts"`
		Scores    int        `json:"scores"`
	}
	besideJSON struct {
		Candidate string       `json:"candidate"`
		Places    []*placeJSON `json:"places"`
		Moves     []string     `json:"moves"`
	}
	placeJSON struct {
		Rank       int    `json:"rank"`
		RankLow    *int   `json:"rank_low"`
		RankHigh   *int   `json:"rank_high"`
		SharedRank int    `json:"shared_rank"`
		Ability    number `json:"ability"`
		Low        number `json:"low"`
		High       number `json:"high"`
	}
)
