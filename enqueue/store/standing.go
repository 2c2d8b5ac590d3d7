package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
)

// Standing is an evaluation's progress.
type Standing struct {
	Status  record.Status
	Stopped string                  // like record.Evaluation.Stopped
	Paused  map[string]record.Pause // providers
	Cursors map[string]int          // by record.CursorField
	Counts  map[string]int          // by record.CountField
	Waiting int64                   // entries of the results stream that no results store has yet
	// Revision is that of the record. What a process remembers of another revision is out of date.
	Revision record.Revision
	// Unreadable is an ErrUnreadable if an evaluation has a record that cannot be read; nothing
	// else is known then. nil: it can be read.
	Unreadable error
}

// Same reports whether nothing has happened between two standings.
func (s Standing) Same(other Standing) bool {
	return s.Status == other.Status && s.Stopped == other.Stopped && s.Revision == other.Revision && s.Waiting == other.Waiting &&
		maps.Equal(s.Counts, other.Counts) && maps.Equal(s.Cursors, other.Cursors) && maps.Equal(s.Paused, other.Paused)
}

// Pushed returns the number of positions of a phase's queue that have been pushed, in the balanced order or in that of
// indexes.
func (s Standing) Pushed(phase int, queue string, balanced bool) int {
	return s.Cursors[record.CursorField(phase, queue, balanced)]
}

// Ended returns the number of runs of a phase's queue that have ended.
func (s Standing) Ended(phase int, queue string) int {
	n := 0
	for _, field := range endedFields(phase, queue) {
		n += s.Counts[field]
	}
	return n
}

// endedFields returns the names of the counts of a queue's ended runs: succeeded, failed, and
// cancelled.
func endedFields(phase int, queue string) [3]string {
	return [3]string{
		record.CountField(phase, eval.StateSucceeded, queue),
		record.CountField(phase, eval.StateFailed, queue),
		record.CountField(phase, eval.StateCancelled, queue),
	}
}

// Total returns the number of runs in a state, over all queues and phases.
func (s Standing) Total(state eval.State) int {
	n := 0
	for field, count := range s.Counts {
		if parts := strings.SplitN(field, "|", 3); len(parts) == 3 && parts[1] == state.String() {
			n += count
		}
	}
	return n
}

// standingsAtOnce bounds the keys that Redis is asked about in one command.
const standingsAtOnce = 100

// Standings reads the progress of evaluations. An evaluation without a record has an empty Status,
// as has one whose Unreadable is set.
func (s *Store) Standings(ctx context.Context, ids []eval.ID) (map[eval.ID]Standing, error) {
	standings := make(map[eval.ID]Standing, len(ids))
	for part := range slices.Chunk(ids, standingsAtOnce) {
		answers, err := s.askStandings(ctx, part, standingScript.EvalShaRO)
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			answers, err = s.askStandings(ctx, part, standingScript.EvalRO)
		}
		if err != nil {
			return nil, err
		}
		for i, id := range part {
			standings[id] = standingOf(id, answers[i])
		}
	}
	return standings, nil
}

// askStandings sends a script for each of some evaluations in one pipeline. It returns an error
// only if Redis fails; the error of a single evaluation is in its answer.
func (s *Store) askStandings(
	ctx context.Context, ids []eval.ID, send func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd,
) ([]*redis.Cmd, error) {
	pipe := s.client.Pipeline()
	asked := make([]*redis.Cmd, len(ids))
	for i, id := range ids {
		asked[i] = send(ctx, pipe, []string{s.keys.Record(id), s.keys.Cursors(id), s.keys.Counts(id), s.keys.Results(id)})
	}
	ask(ctx, pipe)
	for i, cmd := range asked {
		if err := cmd.Err(); err != nil && !ofOneKey(err) {
			return nil, fmt.Errorf("read standing of %s: %w", ids[i], err)
		}
	}
	return asked, nil
}

// ofOneKey reports whether err is Redis's answer about the keys of one command, and says nothing
// about others: a key of the wrong type, or content that a script cannot process.
func ofOneKey(err error) bool {
	return (redis.HasErrorPrefix(err, "WRONGTYPE") || redis.HasErrorPrefix(err, "ERR")) && !outage.Passes(err)
}

func standingOf(id eval.ID, answer *redis.Cmd) Standing {
	words, err := answer.StringSlice()
	var standing Standing
	if err == nil {
		standing, err = parseStanding(words)
	}
	if err != nil {
		return Standing{Unreadable: unreadable(id, err)}
	}
	return standing
}

func parseStanding(answer []string) (standing Standing, err error) {
	if len(answer) < 7 {
		return standing, fmt.Errorf("%d words in the answer", len(answer))
	}
	standing.Status = record.Status(answer[0])
	if standing.Status != "" {
		if err := versionKnown(answer[2]); err != nil {
			return standing, err
		}
		if err := standing.Status.Check(); err != nil {
			return standing, err
		}
	}

	if standing.Paused, err = parsePauses(answer[1]); err != nil {
		return standing, err
	}
	standing.Revision = record.Revision(answer[3])
	standing.Stopped = answer[4]
	if standing.Waiting, err = strconv.ParseInt(answer[5], 10, 64); err != nil {
		return standing, fmt.Errorf("length of the results: %w", err)
	}
	words, rest := answer[6], answer[7:]
	n, err := strconv.Atoi(words)
	if err != nil || n < 0 || n > len(rest) || n%2 != 0 || len(rest)%2 != 0 {
		return standing, fmt.Errorf("the reply has %q strings of cursors, of %d", words, len(rest))
	}
	if standing.Cursors, err = parseNumbers(rest[:n]); err != nil {
		return standing, fmt.Errorf("cursors: %w", err)
	}
	if standing.Counts, err = parseNumbers(rest[n:]); err != nil {
		return standing, fmt.Errorf("counts: %w", err)
	}
	return standing, nil
}

// parseNumbers reads field, value, field, value, … The values are numbers of runs.
func parseNumbers(words []string) (map[string]int, error) {
	numbers := make(map[string]int, len(words)/2)
	for i := 0; i < len(words); i += 2 {
		n, err := strconv.Atoi(words[i+1])
		if err != nil || n < 0 || n > record.MostRuns {
			return nil, fmt.Errorf("%.80q has an invalid number: %.40q", words[i], words[i+1])
		}
		numbers[words[i]] = n
	}
	return numbers, nil
}

// Revisions reads the revisions of evaluations. It leaves out evaluations without a record that can
// be read.
func (s *Store) Revisions(ctx context.Context, ids []eval.ID) (map[eval.ID]record.Revision, error) {
	asked := make([]*redis.SliceCmd, len(ids))
	pipe := s.client.Pipeline()
	for i, id := range ids {
		asked[i] = pipe.HMGet(ctx, s.keys.Record(id), fieldCreated, fieldRevision, fieldChosen)
	}
	ask(ctx, pipe)
	revisions := make(map[eval.ID]record.Revision, len(ids))
	for i, id := range ids {
		if err := asked[i].Err(); err != nil && !ofOneKey(err) {
			return nil, fmt.Errorf("read revision of %s: %w", id, err)
		}
		words := [3]string{}
		for j, value := range asked[i].Val() {
			words[j], _ = value.(string)
		}
		if words[0] != "" {
			revisions[id] = record.RevisionOf(words[0], words[1], words[2])
		}
	}
	return revisions, nil
}
