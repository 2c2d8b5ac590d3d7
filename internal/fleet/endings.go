package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/telemetry/notify"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Endings handles the ends of evaluations that a controller collects. It writes their files next to
// the results store, stores the result in Redis, and notifies the receiver of fleet.yaml.
type Endings struct {
	fleet    *Connection
	notifier *notify.Notifier // nil: no receiver is configured
	pages    string           // address of the pages; empty: unknown

	one sync.Mutex // a report may take a whole core and much memory
}

// NewEndings returns the endings of a fleet's evaluations. secret signs the messages to the
// receiver of to, if it has one.
func NewEndings(f *Connection, to config.Notify, secret string) (*Endings, error) {
	e := &Endings{fleet: f, pages: strings.TrimRight(to.Pages, "/")}
	if to.URL == "" {
		return e, nil
	}
	if secret == "" {
		return nil, failure.Usagef(
			"notify.url is set, but %s is not: set it to a secret, for example from `openssl rand -base64 32`", to.SecretEnv,
		)
	}
	var err error
	if e.notifier, err = notify.New(to.URL, secret); err != nil {
		return nil, failure.Usagef("notify.url with %s: %w", to.SecretEnv, err)
	}
	return e, nil
}

// Conclude implements collect.Collector.Conclude. It fails only if Redis is unreachable or ctx ends. It
// logs files that cannot be written and messages that cannot be sent: the results remain, and
// `evalfleet report` writes the files.
func (e *Endings) Conclude(ctx context.Context, o collect.Outcome, db results.Store) error {
	log := e.fleet.Log.With().Str("evaluation", string(o.Record.ID)).Logger()
	built, err := e.write(ctx, o, db)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		log.Warn().Err(err).Msg("cannot write all files of the evaluation")
	}
	result := built.Result()
	if err := e.notify(ctx, o, built, result); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		log.Warn().Err(err).Msg("cannot notify the receiver at notify.url")
	}
	if o.Early() && o.Known == nil {
		return nil
	}
	log.Info().Str("result", result.Headline).Msg("evaluation ended")
	return e.fleet.Store.Conclude(ctx, o.Record.ID, result)
}

// write makes the report and writes all files, one evaluation at a time.
func (e *Endings) write(ctx context.Context, o collect.Outcome, db results.Store) (*report.Report, error) {
	e.one.Lock()
	defer e.one.Unlock()
	built, _, err := e.fleet.writeFiles(ctx, o.Record, db)
	return built, err
}

// writeFiles makes the report of an evaluation that has ended, and writes it and all other files into the output folder.
// It returns the report, if it could be made, and the paths of what it wrote, also with an error.
func (f *Connection) writeFiles(
	ctx context.Context, r record.Evaluation, from results.Reader,
) (built *report.Report, files []string, err error) {
	built, err = report.Build(ctx, from, r.ID, report.Options{})
	if err != nil {
		return nil, nil, err
	}
	place := results.Place{Dir: f.FolderOf(r)}
	done, err := outdir.Export(ctx, place, from, built, "evalfleet report "+wording.ShellWord(place.Dir))
	page, unwritten := outdir.WriteReport(ctx, place.Dir, from, built, outdir.HTML)
	return built, append(done.Files, page...), errors.Join(err, unwritten)
}

// notify sends the notice of the end, unless another process has sent it.
func (e *Endings) notify(ctx context.Context, o collect.Outcome, built *report.Report, result record.Result) error {
	if e.notifier == nil {
		return nil
	}
	event := notify.Event{Type: notify.Completed, At: result.At, Data: notify.Data{
		Evaluation: string(o.Record.ID), Name: o.Record.Name, Runs: notify.Runs{Planned: o.Planned}, Headline: result.Headline,
	}}
	if result.Reliance != nil {
		event.Data.Trust = result.Reliance.Line()
	}
	about := ""
	if built != nil {
		for _, phase := range built.Phases {
			event.Data.Runs.Succeeded += phase.Succeeded
			event.Data.Runs.Failed += phase.Failed
		}
		var used results.Usage
		for _, calls := range built.Calls {
			used = used.Plus(calls.Usage)
		}
		if used.Unpriced == 0 {
			event.Data.CostUSD = &used.CostUSD
		}
		about = fmt.Sprint(event.Data.Runs, used.Calls) // other numbers are another end
	}

	switch {
	case o.Cancelled:
		event.Type = notify.Cancelled
	case o.Stopped != "" && o.Known == nil:
		event.Type, event.Data.Why = notify.Spent, o.Why().String()
		about = fmt.Sprint(o.Budget, o.Spent)
	case o.Early() && o.Known == nil:
		event.Type, event.Data.Why = notify.Paused, o.Why().String()
		about = fmt.Sprint(o.Why().Paused)
	case event.Data.Runs.Failed > 0:
		event.Type = notify.Failed
	}

	end := event.Type
	if o.Known != nil { // calls in flight may still end and fail, which is not another end
		event.Data.Why = o.Why().String()
		end, about = notify.Completed, event.Data.Why
	}

	if e.pages != "" {
		event.Data.Report = e.pages + "/evaluations/" + string(o.Record.ID) + "/report"
	}
	hash := sha256.Sum256([]byte(string(o.Record.ID) + "\x00" + string(end) + "\x00" + about))
	notice := hex.EncodeToString(hash[:12])
	if mine, err := e.fleet.Store.ClaimNotice(ctx, o.Record.ID, notice); err != nil || !mine {
		return err
	}
	sent := e.notifier.Send(ctx, "msg_"+notice, event)
	if ctx.Err() != nil { // the claim expires, and the next controller sends it
		return sent
	}
	return errors.Join(sent, e.fleet.Store.KeepNotice(ctx, o.Record.ID, notice))
}
