package report

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
)

// everyEvalVersion is the version of Every Eval Ever's schema that EveryEvals follow.
const everyEvalVersion = "0.3.0"

// EveryEval is the record of one candidate in the schema of Every Eval Ever.
type EveryEval struct {
	// Path is where the record belongs: data/<evaluation>/<developer>/<model>/<uuid>.json, with slashes.
	Path   string
	record everyEvalJSON
}

// Write writes the record as JSON.
func (e EveryEval) Write(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(e.record)
}

// The schema's objects, as far as they are used. Values of details are texts.
type (
	everyEvalJSON struct {
		SchemaVersion string            `json:"schema_version"`
		EvaluationID  string            `json:"evaluation_id"`
		Evaluated     string            `json:"evaluation_timestamp"`
		Retrieved     string            `json:"retrieved_timestamp"`
		Source        everySourceJSON   `json:"source_metadata"`
		Library       everyLibraryJSON  `json:"eval_library"`
		Model         everyModelJSON    `json:"model_info"`
		Results       []everyResultJSON `json:"evaluation_results"`
	}
	everySourceJSON struct {
		Name         string `json:"source_name"`
		Type         string `json:"source_type"`
		Organization string `json:"source_organization_name"`
		Relationship string `json:"evaluator_relationship"`
	}
	everyLibraryJSON struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	everyModelJSON struct {
		Name      string            `json:"name"`
		ID        string            `json:"id"`
		Developer string            `json:"developer,omitempty"`
		Details   map[string]string `json:"additional_details"`
	}
	everyResultJSON struct {
		ID     string            `json:"evaluation_result_id"`
		Name   string            `json:"evaluation_name"`
		Data   everyDataJSON     `json:"source_data"`
		Metric everyMetricJSON   `json:"metric_config"`
		Score  everyMeasuredJSON `json:"score_details"`
	}
	everyDataJSON struct {
		Name    string            `json:"dataset_name"`
		Type    string            `json:"source_type"`
		Details map[string]string `json:"additional_details"`
	}
	everyMetricJSON struct {
		Description   string            `json:"evaluation_description"`
		ID            string            `json:"metric_id"`
		Name          string            `json:"metric_name"`
		Kind          string            `json:"metric_kind"`
		Unit          string            `json:"metric_unit"`
		LowerIsBetter bool              `json:"lower_is_better"`
		Type          string            `json:"score_type"`
		Min           any               `json:"min_score"` // a number, or "-Infinity"
		Max           any               `json:"max_score"`
		Judged        *everyJudgingJSON `json:"llm_scoring,omitempty"` // nil: by people
	}
	everyJudgingJSON struct {
		Judges []everyJudgeJSON `json:"judges"`
		Prompt string           `json:"input_prompt"`
	}
	everyJudgeJSON struct {
		Model everyModelJSON `json:"model_info"`
	}
	everyMeasuredJSON struct {
		Score       float64               `json:"score"`
		Details     map[string]string     `json:"details"`
		Uncertainty *everyUncertaintyJSON `json:"uncertainty,omitempty"`
	}
	everyUncertaintyJSON struct {
		Interval *everyIntervalJSON `json:"confidence_interval,omitempty"`
		Samples  int                `json:"num_samples"` // verdicts or scores
	}
	everyIntervalJSON struct {
		Low        float64 `json:"lower"`
		High       float64 `json:"upper"`
		Confidence float64 `json:"confidence_level"`
	}
)

// EveryEvals returns a record of every ranked candidate in the schema of Every Eval Ever. version is that of this
// program. The same results give the same records: their names follow from the evaluation and the candidate, and
// they are dated by its end.
//
// What an evaluation does not know is "unknown": the organization, and whether a model is deployed by it and has
// open weights.
func (r *Report) EveryEvals(version string) []EveryEval {
	var all []EveryEval
	for _, group := range r.Groups {
		for _, c := range group.Ranked {
			all = append(all, r.everyEval(c, version))
		}
	}
	return all
}

func (r *Report) everyEval(c Ranked, version string) EveryEval {
	e := r.Evaluation
	model := everyModel(c.Name)
	at := e.Finished
	if at.IsZero() {
		at = r.Last
	}
	stamp := strconv.FormatInt(at.Unix(), 10)

	of := everyEvalJSON{
		SchemaVersion: everyEvalVersion, EvaluationID: e.Plan.Name + "/" + model.ID + "/" + stamp,
		Evaluated: at.UTC().Format(time.RFC3339), Retrieved: stamp,
		Source:  everySourceJSON{"evalfleet", "evaluation_run", "unknown", "other"},
		Library: everyLibraryJSON{"evalfleet", version}, Model: model,
	}
	if c.Games() > 0 {
		of.Results = append(of.Results, r.everyWinRate(c))
		if r.abilities() {
			of.Results = append(of.Results, r.everyElo(c))
		}
	}
	if c.Overall.N > 0 {
		of.Results = append(of.Results, r.everyScores(c)...)
	}

	developer, name, ok := strings.Cut(model.ID, "/")
	if !ok {
		developer, name = "unknown", model.ID
	}
	place := path.Join("data", eval.FileName(e.Plan.Name), eval.FileName(developer), eval.FileName(name), uuidOf(string(e.ID), c.Name)+".json")
	return EveryEval{place, of}
}

// everyModel describes a model. The id of "provider:model" is written with a slash, as the schema's ids are.
func everyModel(name string) everyModelJSON {
	id := name
	if !strings.Contains(name, "/") {
		id = strings.Replace(name, ":", "/", 1)
	}
	developer, _, ok := strings.Cut(id, "/")
	if !ok {
		developer = ""
	}
	return everyModelJSON{name, id, developer, map[string]string{"deployment_type": "unknown", "model_availability": "unknown"}}
}

func (r *Report) everyWinRate(c Ranked) everyResultJSON {
	out := r.everyResult("win_rate", "Win rate", "win_rate", "proportion", "Share of verdicts on pairs for the "+
		"candidate; a tie is half a win.", eval.KindPairwise, 0.0, 1.0)
	out.Score = everyMeasuredJSON{c.WinRate(), map[string]string{
		"wins": strconv.Itoa(c.Wins), "losses": strconv.Itoa(c.Losses), "ties": strconv.Itoa(c.Ties), "rank": strconv.Itoa(c.Rank),
	}, everyUncertainty(c.WinLimits, c.Games())}
	if !r.abilities() {
		out.Score.Uncertainty.Interval = nil
	}
	return out
}

func (r *Report) everyElo(c Ranked) everyResultJSON {
	out := r.everyResult("elo", "Elo", "elo", "points", r.choiceSentence()+" Elo is 1000 + 400/ln 10 · strength.",
		eval.KindPairwise, "-Infinity", "Infinity")
	limits := rank.Limits{Low: rank.Elo(c.Low), High: rank.Elo(c.High)}
	out.Score = everyMeasuredJSON{rank.Elo(c.Ability), map[string]string{
		"ability": strconv.FormatFloat(c.Ability, 'g', -1, 64), "rank": strconv.Itoa(c.Rank),
	}, everyUncertainty(limits, c.Games())}
	return out
}

// everyScores returns the candidate's mean scores: over all criteria, and on each if there are several.
func (r *Report) everyScores(c Ranked) []everyResultJSON {
	scale := r.Evaluation.Plan.Single.Scale
	score := func(id, name, about string, of Score, limits *rank.Limits) everyResultJSON {
		out := r.everyResult(id, name, "mean_score", "points", about, eval.KindSingle, float64(scale.Min), float64(scale.Max))
		out.Score = everyMeasuredJSON{of.Mean(), map[string]string{}, &everyUncertaintyJSON{Samples: of.N}}
		if limits != nil {
			out.Score.Uncertainty = everyUncertainty(*limits, of.N)
		}
		return out
	}

	all := []everyResultJSON{score("mean_score", "Mean score", "Mean of all scores on all criteria.", c.Overall, &c.ScoreLimits)}
	for k, criterion := range r.Criteria {
		if len(r.Criteria) > 1 && c.Scores[k].N > 0 {
			all = append(all, score("mean_score."+criterion, "Mean score: "+criterion, "Mean of the scores on "+criterion+".", c.Scores[k], nil))
		}
	}
	return all
}

// everyResult returns a result without its score. Judges are those of runs of a kind.
func (r *Report) everyResult(id, name, kind, unit, about string, runs eval.Kind, least, most any) everyResultJSON {
	e := r.Evaluation
	out := everyResultJSON{
		ID: string(e.ID) + "/" + id, Name: e.Plan.Name,
		Data: everyDataJSON{e.Plan.Name, "other", map[string]string{"evaluation": string(e.ID), "items": strconv.Itoa(len(e.Plan.Items))}},
		Metric: everyMetricJSON{
			Description: about, ID: "evalfleet." + id, Name: name, Kind: kind, Unit: unit, Type: "continuous", Min: least, Max: most,
		},
	}

	if len(r.Judges) > 0 {
		prompt := e.Plan.Template(runs)
		if prompt == "" {
			prompt = fmt.Sprintf("evalfleet's template for kind %s", runs)
		}
		out.Metric.Judged = &everyJudgingJSON{Prompt: prompt}
		for _, judge := range r.Judges {
			out.Metric.Judged.Judges = append(out.Metric.Judged.Judges, everyJudgeJSON{everyModel(judge.Model)})
		}
	}
	return out
}

// everyUncertainty returns limits at 95 %, if they are known.
func everyUncertainty(limits rank.Limits, n int) *everyUncertaintyJSON {
	out := &everyUncertaintyJSON{Samples: n}
	if finite(limits.Low) && finite(limits.High) {
		out.Interval = &everyIntervalJSON{limits.Low, limits.High, 0.95}
	}
	return out
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// uuidOf returns an identifier with the form of a random UUID that follows from texts.
func uuidOf(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	sum[6], sum[8] = sum[6]&0x0f|0x40, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
