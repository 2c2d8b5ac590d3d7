package results

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/table"
)

const manifestVersion = 1

type manifestHead struct {
	Version    int             `json:"version"`
	Evaluation eval.ID         `json:"evaluation"`
	Name       string          `json:"name"`
	Created    *string         `json:"created_at"`
	Finished   *string         `json:"finished_at"`
	Cancelled  *string         `json:"cancelled_at,omitempty"`
	Stopped    *Stop           `json:"stopped,omitempty"`
	Settings   readable        `json:"settings"` // record.Settings
	Phases     []manifestPhase `json:"phases"`
	Totals     manifestTotals  `json:"totals"`
	Calls      []manifestCalls `json:"calls"`
	NotSent    []NotSent       `json:"not_sent,omitempty"` // fields that were asked for, but that models refuse
	Statistics Statistics      `json:"statistics"`
	Ranking    *Choices        `json:"ranking,omitempty"` // what ranking.csv depends on
}

type manifestPhase struct {
	Phase     int            `json:"phase"`
	Kind      eval.Kind      `json:"kind"`
	Template  string         `json:"template_hash,omitempty"` // eval.TextHash of the text in the plan
	Runs      int            `json:"runs"`
	Succeeded int            `json:"succeeded"`
	Failed    int            `json:"failed"`
	Cancelled int            `json:"cancelled"`
	Classes   map[string]int `json:"failed_by_class"`
	Unlisted  int            `json:"unfinished_not_listed,omitempty"` // runs without a result that "runs" does not list
}

type manifestTotals struct {
	Runs      int `json:"runs"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	Cancelled int `json:"cancelled"`
	manifestUsage
}

type manifestCalls struct {
	Model string `json:"model"`
	Stage string `json:"stage"`
	manifestUsage
	Errors map[string]int `json:"errors_by_class"`
}

// manifestUsage is the usage of calls. CostUSD is null if the cost of any call is unknown;
// CostAtLeast is then the sum of the known costs. Token counts are those reported; they are null if
// calls that must have used some reported none.
type manifestUsage struct {
	Calls         int      `json:"calls"`
	FromCache     int      `json:"answered_before,omitempty"` // reused answers, for which no call was made
	Input         *int64   `json:"input_tokens"`
	Output        *int64   `json:"output_tokens"`
	Cached        *int64   `json:"cached_tokens"`
	Written       *int64   `json:"cache_write_tokens"`
	Reasoning     *int64   `json:"reasoning_tokens"`
	WithoutTokens int      `json:"calls_without_tokens,omitempty"`
	CostUSD       *float64 `json:"cost_usd"`
	CostAtLeast   *float64 `json:"cost_usd_at_least,omitempty"`
	SavedUSD      float64  `json:"saved_usd,omitempty"` // by prompt caches; below 0: they cost more than they saved
}

type manifestRun struct {
	ID         string   `json:"id"`
	RunID      string   `json:"run_id,omitempty"` // a listed run's own
	Status     string   `json:"status"`
	Class      string   `json:"class,omitempty"`
	Error      string   `json:"error,omitempty"`
	Judge      string   `json:"judge"`
	Model      string   `json:"model"`
	AnsweredBy string   `json:"answered_by,omitempty"`
	Item       string   `json:"item"`
	Documents  []string `json:"documents"`
	Trial      int      `json:"trial"`
	Dimension  string   `json:"dimension,omitempty"` // of a panel: its agent is the judge
	Generation int      `json:"generation"`
	Attempts   int      `json:"attempts"`
	Path       string   `json:"path,omitempty"` // of a listed run's answer
	Started    *string  `json:"started_at"`
	Ended      *string  `json:"ended_at"`
	manifestUsage
}

// manifestError says why a run failed.
type manifestError struct {
	ID        string   `json:"id"`
	RunID     string   `json:"run_id,omitempty"` // a listed run's own
	Judge     string   `json:"judge"`
	Dimension string   `json:"dimension,omitempty"` // of a panel, whose agent is the judge
	Documents []string `json:"documents"`
	Class     string   `json:"class"`
	Error     string   `json:"error"`
	Attempts  int      `json:"attempts"`
}

func errorOf(r RunRow) manifestError {
	return manifestError{
		ID: shortID(r.Phase, r.Index), RunID: r.Name, Judge: r.Judge, Dimension: r.Dimension, Documents: r.Documents,
		Class: string(r.Class), Error: r.Error, Attempts: r.Attempts,
	}
}

// writeManifest writes the head as one object with a further key for the runs. It streams the runs,
// one per line, because there may be millions. paths are those of answers, by RunID.Short.
func writeManifest(ctx context.Context, w io.Writer, r Reader, e Evaluation, ranking *Choices, paths map[string]string) error {
	counts, err := r.Counts(ctx, e.ID)
	if err != nil {
		return err
	}
	head, err := manifest(ctx, r, e, counts)
	if err != nil {
		return err
	}

	without := unfinishedOf(e, counts)
	for i, phase := range head.Phases {
		head.Phases[i].Unlisted = without[phase.Phase].unlisted
	}
	head.Ranking = ranking
	raw, err := json.MarshalIndent(head, "", "  ")
	if err != nil {
		return err
	}
	if _, err := w.Write(raw[:len(raw)-len("\n}")]); err != nil {
		return err
	}
	err = writeList(w, "errors", r.Runs(ctx, e.ID, eval.StateFailed), func(row RunRow) any { return errorOf(row) })
	if err != nil {
		return err
	}

	err = writeList(w, "runs", withUnfinished(without, r.Runs(ctx, e.ID)), func(row RunRow) any {
		run := runOf(row)
		run.Path = paths[run.ID]
		return run
	})
	if err != nil {
		return err
	}

	_, err = io.WriteString(w, "\n}\n")
	return err
}

// writeList writes a further list of the manifest, one element per line.
func writeList(w io.Writer, name string, rows iter.Seq2[RunRow, error], element func(RunRow) any) error {
	if _, err := io.WriteString(w, ",\n  \""+name+"\": ["); err != nil {
		return err
	}
	separator := "\n    "
	for row, err := range rows {
		if err != nil {
			return err
		}
		raw, err := json.Marshal(element(row))
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, separator); err != nil {
			return err
		}
		if _, err := w.Write(raw); err != nil {
			return err
		}
		separator = ",\n    "
	}
	_, err := io.WriteString(w, "\n  ]")
	return err
}

func manifest(ctx context.Context, r Reader, e Evaluation, counts []PhaseCounts) (manifestHead, error) {
	head := manifestHead{
		Version: manifestVersion, Evaluation: e.ID, Name: e.Plan.Name,
		Created: optionalTime(e.Created), Finished: optionalTime(e.Finished), Cancelled: optionalTime(e.Cancelled),
		Stopped: e.Stopped, Settings: readable{e.Settings},
		Phases: []manifestPhase{}, Calls: []manifestCalls{},
	}

	for _, c := range counts {
		phase := manifestPhase{
			Phase: c.Phase, Kind: c.Kind, Runs: c.Runs, Succeeded: c.Succeeded, Failed: c.Failed, Cancelled: c.Cancelled, Classes: c.Classes,
		}
		if text := e.Plan.Template(c.Kind); text != "" {
			phase.Template = eval.TextHash(text)
		}
		head.Phases = append(head.Phases, phase)
		head.Totals.Runs += c.Runs
		head.Totals.Succeeded += c.Succeeded
		head.Totals.Failed += c.Failed
		head.Totals.Cancelled += c.Cancelled
	}

	calls, err := r.CallTotals(ctx, e.ID)
	if err != nil {
		return manifestHead{}, err
	}
	if head.NotSent, err = r.NotSent(ctx, e.ID); err != nil {
		return manifestHead{}, err
	}
	if head.Statistics, err = r.Statistics(ctx, e.ID); err != nil {
		return manifestHead{}, err
	}
	var sum Usage
	for _, c := range calls {
		head.Calls = append(head.Calls, manifestCalls{c.Model, c.Stage, usageOf(c.Usage), c.Errors})
		sum = sum.Plus(c.Usage)
	}

	head.Totals.manifestUsage = usageOf(sum)
	return head, nil
}

func runOf(r RunRow) manifestRun {
	return manifestRun{
		ID: shortID(r.Phase, r.Index), RunID: r.Name, Status: r.State, Class: string(r.Class), Error: r.Error,
		Judge: r.Judge, Model: r.Model, AnsweredBy: r.AnsweredBy, Item: r.Item, Documents: r.Documents,
		Trial: r.Trial, Dimension: r.Dimension, Generation: r.Generation, Attempts: r.Attempts,
		Started: optionalTime(r.Started), Ended: optionalTime(r.Ended), manifestUsage: usageOf(r.Used),
	}
}

func usageOf(u Usage) manifestUsage {
	out := manifestUsage{Calls: u.Calls, FromCache: u.FromCache, WithoutTokens: u.Unreported, SavedUSD: u.SavedUSD}
	if u.Unreported == 0 || u.Input+u.Output > 0 {
		out.Input, out.Output, out.Cached, out.Written, out.Reasoning = &u.Input, &u.Output, &u.Cached, &u.Written, &u.Reasoning
	}
	switch {
	case u.Unpriced == 0:
		out.CostUSD = &u.CostUSD
	case u.CostUSD > 0:
		out.CostAtLeast = &u.CostUSD
	}
	return out
}

func optionalTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := table.FormatTime(t)
	return &text
}
