package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/gate"
	"github.com/evalfleet/evalfleet/internal/quarantine"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/internal/store"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/results"
)

const jsonFlag = "json"

func statusCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "Show progress",
		ArgsUsage: "[ID|DIR]",
		Description: "Lists the evaluations in Redis, or shows one: progress by phase, pace, binding limits and queues. With an " +
			"output folder, it shows the run in progress there, or the recorded results. Tokens, cost and error classes are " +
			"shown if the results store can be read from this machine.",
		Flags: lookFlags(),
		Action: func(c *cli.Context) error {
			if c.Args().Len() > 1 {
				return usageError("status takes one ID or folder or none, got %d", c.Args().Len())
			}
			s, err := p.source(c, c.Args().First())
			if err != nil {
				return err
			}
			defer s.Close()
			watched := newStatus(s)
			return p.look(c, func(ctx context.Context, now time.Time) (string, bool, error) {
				list, err := watched.standings(ctx, now)
				if err != nil {
					return "", false, err
				}
				// The list of all evaluations never ends: others may come.
				last := (s.dir != "" || s.only != "") && !slices.ContainsFunc(list, standing.underWay)
				if c.Bool(jsonFlag) {
					text, err := asJSON(list, c.Bool(watchFlag))
					return text, last, err
				}
				return statusText(list, now), last, nil
			})
		},
	}
}

// standing is what `status` says of an evaluation; the names are those of --json.
type standing struct {
	Evaluation eval.ID         `json:"evaluation"`
	Name       string          `json:"name"`
	Status     record.Status   `json:"status"`
	Created    time.Time       `json:"created"`
	Phases     []phaseStanding `json:"phases"`
	// Unreadable is why the evaluation cannot be worked on by a program of this version.
	Unreadable string `json:"unreadable,omitempty"`
	// Uncollected is how many results wait in Redis for a collector.
	Uncollected int64          `json:"uncollected"`
	Classes     map[string]int `json:"failed_by_class,omitempty"` // known where the results are
	Used        *usedStanding  `json:"used,omitempty"`            // likewise
	// Statistics count runs by who answered, and Advice says what to change; known
	// where the results are.
	Statistics *results.Statistics `json:"statistics,omitempty"`
	Advice     []string            `json:"advice,omitempty"`
	fallback   *record.Fallback
	// Budget is how far it is spent; absent without one.
	Budget *budgetStanding `json:"budget,omitempty"`
	// Paused are the providers that the fleet paused for it, until it is resumed.
	Paused map[string]record.Pause `json:"paused_providers,omitempty"`
	// BoundBy are the limits that calls wait for now; after the end, the one that
	// most calls waited for.
	BoundBy []string        `json:"bound_by,omitempty"`
	Queues  []queueStanding `json:"queues,omitempty"`
	Workers *int            `json:"workers_alive,omitempty"` // of the whole fleet; absent without a Redis
}

type phaseStanding struct {
	Kind      eval.Kind `json:"kind"`
	Runs      int       `json:"runs"`
	Succeeded int       `json:"succeeded"`
	Failed    int       `json:"failed"`
	Cancelled int       `json:"cancelled"`
	RatePerS  *float64  `json:"rate_per_s,omitempty"` // runs; absent: unknown
	LeftS     *float64  `json:"left_s,omitempty"`     // at that rate; absent: unknown, or nothing goes on
}

// usedStanding is what all calls together have used. Without a price from the
// provider the cost is unknown, which is not 0.
type usedStanding struct {
	Calls      int      `json:"calls"`
	FromCache  int      `json:"answered_before"` // and not made
	Input      int64    `json:"input_tokens"`
	Output     int64    `json:"output_tokens"`
	Unreported int      `json:"calls_without_tokens"` // possibly charged, nobody said how much
	CostUSD    *float64 `json:"cost_usd"`             // null: unknown; else of the calls that have a price
	Unpriced   int      `json:"calls_without_price"`
	// Stages are the same by model and stage.
	Stages []stageStanding `json:"by_stage,omitempty"`
}

// stageStanding is what the calls of one model in one stage have used.
type stageStanding struct {
	Model string `json:"model"`
	Stage string `json:"stage"`
	usedStanding
}

type queueStanding struct {
	Name      string `json:"queue"`
	Pending   int    `json:"pending"`
	Active    int    `json:"active"`
	Scheduled int    `json:"scheduled"`
	Retry     int    `json:"retry"`
	Paused    bool   `json:"paused"`
}

func (p phaseStanding) ended() int { return p.Succeeded + p.Failed + p.Cancelled }

// underWay reports whether an evaluation's numbers may still change.
func (s standing) underWay() bool {
	return s.Status == record.StatusActive || s.Status == record.StatusPaused || s.Status == statusRunning || s.Uncollected > 0
}

// pacing reports whether runs end now.
func (s standing) pacing() bool { return s.Status == record.StatusActive || s.Status == statusRunning }

// Words of an evaluation that only its folder knows.
const (
	statusInterrupted record.Status = "interrupted"
	statusRunning     record.Status = "running"
)

// statusUnreadable is of an evaluation whose record this program cannot read.
const statusUnreadable record.Status = "unreadable"

// status looks at evaluations, again and again where it is watched.
type status struct {
	source *source
	judges judges
	marks  map[phaseKey][]mark // what had ended at the last looks
	sinks  sinkLooks
}

type phaseKey struct {
	evaluation eval.ID
	phase      int
}

func newStatus(s *source) *status {
	return &status{source: s, judges: judges{}, marks: map[phaseKey][]mark{}, sinks: sinkLooks{}}
}

// standings looks once. A run that has just ended, or was killed, leaves its
// folder.
func (s *status) standings(ctx context.Context, now time.Time) ([]standing, error) {
	list := []standing{}
	var err error
	if redis := s.source.fleet(ctx); redis != nil {
		list, err = s.inRedis(ctx, redis, now)
	}
	if s.source.dir != "" && (err != nil || len(list) == 0) {
		list, err = s.inFolder(ctx, now)
	}
	for i := range list {
		s.takeMark(&list[i], now)
	}
	slices.SortFunc(list, func(a, b standing) int { return a.Created.Compare(b.Created) })
	return list, err
}

// inRedis reads one evaluation, or all that Redis knows.
func (s *status) inRedis(ctx context.Context, d *drain, now time.Time) ([]standing, error) {
	ids, err := s.source.evaluations(ctx, d)
	if err != nil {
		return nil, err
	}
	all, err := d.store.Standings(ctx, ids)
	if err != nil {
		return nil, withCode(exitUnreachable, err)
	}
	limiter := d.limiter()
	usage, err := limiter.Usage(ctx)
	if err != nil {
		return nil, withCode(exitUnreachable, err)
	}
	cooldowns, err := limiter.Cooldowns(ctx)
	if err != nil {
		return nil, withCode(exitUnreachable, err)
	}
	alive, err := workersAlive(ctx, limiter)
	if err != nil {
		return nil, withCode(exitUnreachable, err)
	}
	list := []standing{}
	for _, id := range ids {
		r, err := d.store.Evaluation(ctx, id)
		if err == nil {
			err = s.judges.fits(ctx, d, r, all[id])
		}
		switch {
		case errors.Is(err, store.ErrNoEvaluation):
			continue // expired or deleted, and not yet taken off the list
		case err != nil && quarantine.Concerns(err):
			list = append(list, standing{Evaluation: id, Name: r.Name, Status: statusUnreadable, Created: r.Created, Phases: []phaseStanding{}, Unreadable: err.Error(), Workers: &alive})
			continue
		case err != nil:
			return nil, withCode(exitUnreachable, err)
		}
		line := inRecord(r, all[id])
		line.Workers = &alive
		line.Budget = budgetOf(r, usage)
		if line.Status == record.StatusActive {
			line.BoundBy = binding(usage, cooldowns, keptBy(s.judges[id], id), now)
		}
		if line.underWay() {
			if line.Queues, err = queuesOf(d, r.Phases); err != nil {
				return nil, withCode(exitUnreachable, err)
			}
		}
		s.addSink(ctx, &line, r, now)
		if !slices.ContainsFunc(line.Phases, func(p phaseStanding) bool { return p.RatePerS != nil }) {
			line.addWholeRate(now)
		}
		list = append(list, line)
	}
	return list, nil
}

// inRecord is how far an evaluation is by its record in Redis.
func inRecord(r record.Evaluation, at store.Standing) standing {
	line := standing{Evaluation: r.ID, Name: r.Name, Status: at.Status, Created: r.Created, fallback: r.Settings.Fallback, Uncollected: at.Waiting, Paused: at.Paused}
	for i, phase := range r.Phases {
		of := phaseStanding{Kind: phase.Kind, Runs: phase.Runs}
		for queue := range phase.Queues {
			of.Succeeded += at.Counts[record.CountField(i, eval.StateSucceeded, queue)]
			of.Failed += at.Counts[record.CountField(i, eval.StateFailed, queue)]
			of.Cancelled += at.Counts[record.CountField(i, eval.StateCancelled, queue)]
		}
		line.Phases = append(line.Phases, of)
	}
	return line
}

// judges remembers who is called for evaluations: a plan is large and never changes.
type judges map[eval.ID][]eval.Judge

// fits reports an error if the fleet cannot work on an evaluation. It reads the plan of
// an active one, once.
func (of judges) fits(ctx context.Context, d *drain, r record.Evaluation, at store.Standing) error {
	if at.Unreadable != nil || at.Status != record.StatusActive {
		return at.Unreadable
	}
	_, err := of.keep(ctx, d, r)
	return err
}

// keep says which limits calls of an evaluation keep.
func (of judges) keep(ctx context.Context, d *drain, r record.Evaluation) (func(ratelimit.Limit) bool, error) {
	if _, ok := of[r.ID]; !ok {
		e, err := d.store.Plan(ctx, r.ID)
		if err == nil {
			err = enqueue.Fits(e, r)
		}
		if err != nil {
			return nil, err
		}
		of[r.ID] = r.Settings.Everyone(e)
	}
	return keptBy(of[r.ID], r.ID), nil
}

// keptBy says which limits calls of an evaluation's judges keep.
func keptBy(judges []eval.Judge, id eval.ID) func(ratelimit.Limit) bool {
	return func(l ratelimit.Limit) bool {
		return slices.ContainsFunc(judges, func(j eval.Judge) bool {
			return l.Matches(ratelimit.Scope{Provider: j.Provider, Model: j.Model, Evaluation: string(id)})
		})
	}
}

// binding is the cooldowns and limits among those kept that calls wait for,
// whoever's calls do.
func binding(usage []ratelimit.Usage, cooldowns []ratelimit.Cooldown, kept func(ratelimit.Limit) bool, now time.Time) []string {
	var words []string
	for _, c := range cooldownViews(cooldowns, kept) {
		words = append(words, c.text(now))
	}
	for _, u := range usage {
		if kept(u.Limit) && u.Binds() {
			words = append(words, u.Limit.String())
		}
	}
	return words
}

func workersAlive(ctx context.Context, l *ratelimit.Limiter) (int, error) {
	workers, err := l.Alive(ctx)
	n := 0
	for _, alive := range workers {
		if alive {
			n++
		}
	}
	return n, err
}

// queuesOf returns the counts of an evaluation's queues; zero for a queue that asynq
// does not know.
func queuesOf(d *drain, phases []record.Phase) ([]queueStanding, error) {
	inspector := asynq.NewInspectorFromRedisClient(d.client)
	var names []string
	for _, phase := range phases {
		for name := range phase.Queues {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var queues []queueStanding
	for _, name := range slices.Compact(names) {
		info, known, err := gate.QueueInfo(inspector, name)
		if err != nil {
			return nil, err
		}
		if !known {
			info = &asynq.QueueInfo{}
		}
		queues = append(queues, queueStanding{
			Name: name, Pending: info.Pending, Active: info.Active, Scheduled: info.Scheduled, Retry: info.Retry, Paused: info.Paused,
		})
	}
	return queues, nil
}

// inFolder reads what an output folder holds when no Redis can be asked.
func (s *status) inFolder(ctx context.Context, now time.Time) ([]standing, error) {
	url, only, err := s.source.sinkIn()
	if err != nil {
		return nil, err
	}
	reader, _, err := readSink(ctx, url, only)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	listed, err := reader.Evaluations(ctx)
	if err != nil {
		return nil, withCode(exitUnreachable, err)
	}
	listed = inFolder(only, listed)
	list := make([]standing, 0, len(listed))
	for _, of := range listed {
		counts, err := reader.Counts(ctx, of.ID)
		if err != nil {
			return nil, withCode(exitUnreachable, err)
		}
		line := standing{Evaluation: of.ID, Name: of.Name, Created: of.Created, Status: statusInFolder(s.source.dir, of)}
		for _, phase := range counts {
			of := phaseStanding{Kind: phase.Kind, Runs: phase.Runs, Succeeded: phase.Succeeded, Failed: phase.Failed}
			if line.Status == record.StatusCancelled { // a sink has no rows of cancelled runs
				of.Cancelled = phase.Runs - phase.Succeeded - phase.Failed
			}
			line.Phases = append(line.Phases, of)
		}
		if e, err := reader.Evaluation(ctx, of.ID); err == nil {
			line.fallback = e.Settings.Fallback
			line.Budget = budgetOf(record.Evaluation{ID: of.ID, Settings: e.Settings}, nil)
		}
		s.addSink(ctx, &line, record.Evaluation{ID: of.ID, Name: of.Name}, now)
		list = append(list, line)
	}
	return list, nil
}

func statusInFolder(dir string, of results.Listed) record.Status {
	switch busy := inUse(dir); {
	case !of.Cancelled.IsZero() && !busy:
		return record.StatusCancelled
	case !of.Finished.IsZero():
		return record.StatusDone
	case busy:
		return statusRunning
	}
	return statusInterrupted
}

// inUse reports whether a process holds an output folder.
func inUse(dir string) bool {
	if _, err := os.Stat(dir); err != nil {
		return false
	}
	out, err := openFolder(dir)
	if err != nil {
		return true
	}
	_ = out.Close()
	return false
}
