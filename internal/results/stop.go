package results

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Stop says why the fleet stopped an evaluation before all its runs had ended: its best candidates
// are known, its budget leaves no room for another call, or all remaining runs belong to paused
// providers.
type Stop struct {
	At     time.Time               `json:"at"`
	Budget int64                   `json:"budget,omitempty"` // in nano-USD, like Spent; 0: the budget is not the reason
	Spent  int64                   `json:"spent,omitempty"`
	Paused map[string]record.Pause `json:"paused,omitempty"` // by provider
	Known  *Known                  `json:"known,omitempty"`
}

// Same reports whether two reasons are the same, whenever they were noted.
func (s Stop) Same(other Stop) bool {
	return s.Known.same(other.Known) && s.Budget == other.Budget && s.Spent == other.Spent &&
		maps.EqualFunc(s.Paused, other.Paused, func(a, b record.Pause) bool {
			at := a.At.Equal(b.At)
			a.At, b.At = time.Time{}, time.Time{}
			return at && a == b
		})
}

// String says why in words, and what to do about paused providers.
func (s Stop) String() string {
	if s.Known != nil {
		return s.Known.String()
	}
	if s.Budget > 0 {
		return fmt.Sprintf(
			"its budget of %s leaves no room for another call: %s is spent", ratelimit.Dollars(s.Budget),
			ratelimit.Dollars(s.Spent),
		)
	}
	var why []string
	for _, provider := range slices.Sorted(maps.Keys(s.Paused)) {
		p := s.Paused[provider]
		why = append(why, fmt.Sprintf("provider %s is paused, %s; %s", provider, p, p.Remedy()))
	}
	return strings.Join(why, "; ")
}

// Remedy says how to continue a stopped evaluation; empty if nothing is left to do.
func (s Stop) Remedy() string {
	switch {
	case s.Known != nil:
		return ""
	case s.Budget > 0:
		return "raise budget in the evaluation file and submit it again"
	}
	return "then resume with `evalfleet resume`"
}

// stoppedWhy selects the Stop of evaluation e; NULL if it has not stopped or has resumed.
const stoppedWhy = `(SELECT CASE name WHEN '` + eventStopped + `' THEN metadata END FROM events
	WHERE evaluation = e.id AND name IN ('` + eventCancelled + `', '` + eventResumed + `', '` + eventStopped + `') ORDER BY id DESC LIMIT 1)`

// decodeStop reads the column of stoppedWhy.
func decodeStop(text sql.NullString) (*Stop, error) {
	if !text.Valid {
		return nil, nil
	}
	stop := new(Stop)
	if err := json.Unmarshal([]byte(text.String), stop); err != nil {
		return nil, fmt.Errorf("decode why the evaluation stopped: %w", err)
	}
	return stop, nil
}

// Stop stores why the fleet stopped an evaluation.
func (s *store) Stop(ctx context.Context, id eval.ID, why Stop) error {
	metadata, err := json.Marshal(why)
	if err != nil {
		return fmt.Errorf("encode why %s stopped: %w", id, err)
	}
	return s.transact(ctx, fmt.Sprintf("note that %s has stopped", id), func(t *transaction) error {
		if err := t.lock(ctx, id); err != nil {
			return err
		}
		_, err := t.exec(ctx, addEvent, string(id), "", eventStopped, string(metadata), stamp{why.At})
		return err
	})
}
