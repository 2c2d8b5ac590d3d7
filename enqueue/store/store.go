// Package store keeps evaluations and the states of their runs in Redis: it
// sends the keys, payloads and scripts of docs/formats.md.
//
// It decides nothing: worker decides what happens to a run, enqueue when runs are pushed, and
// results where results go.
package store

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/redisx/batch"
	"github.com/evalfleet/evalfleet/internal/text/packing"
)

// ErrNoEvaluation means that Redis has no record of the evaluation.
var ErrNoEvaluation = errors.New("no such evaluation in Redis")

// ErrUnreadable means that Redis has a record of the evaluation that this program cannot use: it is
// of another version, or its content is invalid.
var ErrUnreadable = errors.New("the evaluation cannot be read")

// unreadable returns the ErrUnreadable of an evaluation, with the reason err.
func unreadable(id eval.ID, err error) error {
	return fmt.Errorf("%s: %w: %w", shown(id), ErrUnreadable, err)
}

// shown returns an id for use in a message, shortened and quoted unless it is valid. The ids that
// Redis lists may be anything.
func shown(id eval.ID) string {
	if id.Valid() {
		return string(id)
	}
	return fmt.Sprintf("%.80q", string(id))
}

// versionKnown reports an error unless this program knows the version of a record.
func versionKnown(v string) error {
	if n, err := strconv.Atoi(v); err != nil || n < record.EvaluationVersion || n > record.EvaluationVersionExtended || strconv.Itoa(n) != v {
		return fmt.Errorf("its record has version %.20q, this program knows %d", v, record.EvaluationVersionExtended)
	}
	return nil
}

// Store reads and writes evaluations in Redis. It is safe for concurrent use.
type Store struct {
	client  redis.Cmdable // a redis.UniversalClient; see Client
	keys    record.Keys
	checks  *batch.Batcher[record.Task, checked]
	records *batch.Batcher[Outcome, recorded]
}

const (
	batchRuns    = 64 // in one script
	checkPause   = 5 * time.Millisecond
	checkEnough  = 8
	recordPause  = 10 * time.Millisecond
	recordEnough = 8
)

// batchTimeout bounds a script that several callers wait for, whatever the context of one of them.
var batchTimeout = 5 * time.Second // tests have more patience

// NewBusy returns a Store for a process that runs many runs at once. It batches concurrent checks
// for up to 5 ms, and concurrent records for up to 10 ms.
func NewBusy(client redis.UniversalClient, namespace string) *Store {
	s := New(client, namespace)
	s.checks = batch.New(batch.Config{Most: batchRuns, Pause: checkPause, Enough: checkEnough}, s.sendChecks)
	s.records = batch.New(batch.Config{Most: batchRuns, Pause: recordPause, Enough: recordEnough}, s.sendRecords)
	return s
}

// New returns a Store that uses client. An empty namespace is record.DefaultNamespace.
func New(client redis.UniversalClient, namespace string) *Store {
	if namespace == "" {
		namespace = record.DefaultNamespace
	}
	s := &Store{client: client, keys: record.Keys{Namespace: namespace}}
	s.checks = batch.New(batch.Config{Most: batchRuns}, s.sendChecks)
	s.records = batch.New(batch.Config{Most: batchRuns}, s.sendRecords)
	return s
}

// Keys returns the builder of the store's keys.
func (s *Store) Keys() record.Keys { return s.keys }

// Client returns the client that the store was made with, for commands.
//
// Types that others hold name redis.Cmdable, never redis.UniversalClient: the compiler repeats some 1,700 methods of
// go-redis in each package that reaches the latter through a type, which takes it 1.5 s of a processor.
func (s *Store) Client() redis.Cmdable { return s.client }

// Close ends the connections of that client.
func (s *Store) Close() error { return s.client.(io.Closer).Close() }

// Universal returns the whole client that a store was made with, for asynq.
func Universal(s *Store) redis.UniversalClient { return s.client.(redis.UniversalClient) }

var (
	//go:embed lua/revision.lua
	revisionSource string // prefix of the scripts that compare revisions
	//go:embed lua/outlive.lua
	outliveSource string // prefix of the scripts that append results
	//go:embed lua/memory.lua
	memorySource string // prefix of the scripts that acknowledge results
	//go:embed lua/create.lua
	createSource string
	//go:embed lua/restore.lua
	restoreSource string
	//go:embed lua/check.lua
	checkSource string
	//go:embed lua/record.lua
	recordSource string
	//go:embed lua/advance.lua
	advanceSource string
	//go:embed lua/died.lua
	diedSource string
	//go:embed lua/forget_progress.lua
	forgetProgressSource string
	//go:embed lua/standing.lua
	standingSource string
	//go:embed lua/finish.lua
	finishSource string
	//go:embed lua/reopen.lua
	reopenSource string
	//go:embed lua/progress.lua
	progressSource string
	//go:embed lua/restore_progress.lua
	restoreProgressSource string
	//go:embed lua/append.lua
	appendSource string
	//go:embed lua/held.lua
	heldSource string

	createScript         = redis.NewScript(createSource)
	restoreScript        = redis.NewScript(restoreSource)
	checkScript          = redis.NewScript(revisionSource + checkSource)
	recordScript         = redis.NewScript(memorySource + outliveSource + recordSource)
	advanceScript        = redis.NewScript(revisionSource + advanceSource)
	diedScript           = redis.NewScript(diedSource)
	forgetProgressScript = redis.NewScript(forgetProgressSource)
	standingScript       = redis.NewScript(revisionSource + standingSource)
	finishScript         = redis.NewScript(revisionSource + finishSource)
	reopenScript         = redis.NewScript(steeredSource + reopenSource)

	progressScript        = redis.NewScript(memorySource + outliveSource + progressSource)
	restoreProgressScript = redis.NewScript(memorySource + outliveSource + restoreProgressSource)
	appendScript          = redis.NewScript(memorySource + outliveSource + appendSource)
	heldScript            = redis.NewScript(memorySource + heldSource)
)

// Lifetimes of keys that no record protects.
const (
	orphanLife   = 24 * time.Hour      // of a submission that was interrupted
	progressLife = 14 * 24 * time.Hour // of a run in progress
	endedLife    = 7 * 24 * time.Hour  // of an evaluation that ended and was drained
)

// Fields of the evaluation's record.
const (
	fieldVersion    = "v"
	fieldName       = "name"
	fieldCreated    = "created"
	fieldStatus     = "status"
	fieldStopped    = "stopped"
	fieldPaused     = "paused"
	fieldSettings   = "settings"
	fieldPhases     = "phases"
	fieldResultsID  = "sink"
	fieldResultsURL = "sink_url"
	fieldChosen     = "chosen"
	fieldRevision   = "revision"
	fieldResult     = "result"
)

// Restored is the state of one run as a results store has it.
type Restored struct {
	Phase, Index int
	Queue        string
	State        eval.State // none: the run has to be made, in this generation
	Generation   int
}

// Create stores an evaluation: plan and documents first, the record last, so that a record means
// that everything is stored. restored are the runs recorded in the evaluation's results store. If
// the record exists already, created is false and nothing is changed. Create may be repeated after
// any failure.
func (s *Store) Create(
	ctx context.Context, r record.Evaluation, e *eval.Evaluation, texts map[string]string, restored []Restored,
) (created bool, err error) {
	if err := r.Check(); err != nil { // never write what could not be read again
		return false, fmt.Errorf("create evaluation %s: %w", r.ID, err)
	}
	n, err := s.client.Exists(ctx, s.keys.Record(r.ID)).Result()
	if err != nil {
		return false, fmt.Errorf("look for evaluation %s: %w", r.ID, err)
	}
	if n == 1 {
		return false, nil
	}
	if err := s.putPlan(ctx, r.ID, e, texts); err != nil {
		return false, err
	}
	chunks, counts, err := s.restore(ctx, r, restored)
	if err != nil {
		return false, err
	}

	choices, err := s.putChoices(ctx, r)
	if err != nil {
		return false, err
	}
	fields, err := recordFields(r)
	if err != nil {
		return false, err
	}
	// Listed before it exists: readers skip an ID without a record, but nothing would ever find a
	// record that is not listed.
	if err := s.list(ctx, s.keys.Evaluations(), r.ID); err != nil {
		return false, err
	}
	keys := append([]string{
		s.keys.Record(r.ID), s.keys.Plan(r.ID), s.keys.Documents(r.ID), s.keys.Counts(r.ID),
	}, append(chunks, choices...)...)
	args := append(append([]any{len(fields)}, fields...), counts...)
	answer, err := createScript.Run(ctx, s.client, keys, args...).Int()
	switch {
	case err != nil:
		return false, fmt.Errorf("create evaluation %s: %w", r.ID, err)
	case answer < 0:
		return false, fmt.Errorf("create evaluation %s: its plan or documents were deleted meanwhile; submit it again", r.ID)
	}

	return answer == 1, nil
}

func (s *Store) putPlan(ctx context.Context, id eval.ID, e *eval.Evaluation, texts map[string]string) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode evaluation %s: %w", id, err)
	}
	pipe := s.client.Pipeline()
	packed := packing.Pack(raw)
	largest := len(packed)
	pipe.Set(ctx, s.keys.Plan(id), packed, orphanLife)
	const pack = 100 // texts per command
	values := make([]any, 0, 2*pack)
	flush := func() {
		if len(values) > 0 {
			pipe.HSet(ctx, s.keys.Documents(id), values...)
			values = make([]any, 0, 2*pack)
		}
	}

	for hash, text := range texts {
		packed := packing.Pack([]byte(text))
		largest = max(largest, len(packed))
		values = append(values, hash, packed)
		if len(values) == 2*pack {
			flush()
		}
	}

	flush()
	pipe.Expire(ctx, s.keys.Documents(id), orphanLife)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("store plan and documents of %s: %w%s", id, err, tooLarge(err, largest))
	}
	return nil
}

// tooLarge says what to do if Redis may have refused a value for its size. Redis then replies with
// an error and closes the connection while the client is still writing. Which of these the client
// sees depends on timing.
func tooLarge(err error, largest int) string {
	refused := strings.Contains(err.Error(), "invalid bulk length")
	cut := errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)
	if !refused && (!cut || largest < leastRefused) {
		return ""
	}
	return fmt.Sprintf(
		"; its largest document or plan takes %.1f MB compressed: if Redis refuses that, raise its proto-max-bulk-len, or shorten the document",
		float64(largest)/1e6,
	)
}

// leastRefused is the lowest proto-max-bulk-len that Redis accepts.
const leastRefused = 1 << 20

// restore writes the states of runs that the results store has recorded. It returns the keys
// written and the counts that go with them.
func (s *Store) restore(ctx context.Context, r record.Evaluation, restored []Restored) (chunks []string, counts []any, err error) {
	states := map[string][]byte{}
	perField := map[string]int{}
	for _, run := range restored {
		key := s.keys.States(r.ID, run.Phase, run.Index)
		offset := run.Index % record.ChunkRuns
		bytes := states[key]
		if len(bytes) <= offset {
			bytes = append(bytes, make([]byte, offset+1-len(bytes))...)
		}
		bytes[offset] = record.StateByte(run.State, run.Generation)
		states[key] = bytes
		if run.State != eval.StateNone {
			perField[record.CountField(run.Phase, run.State, run.Queue)]++
		}
	}

	for key, bytes := range states {
		_, err := restoreScript.Run(ctx, s.client, []string{s.keys.Record(r.ID), key}, bytes, int(orphanLife.Seconds())).Int()
		if err != nil {
			return nil, nil, fmt.Errorf("restore states of %s: %w", r.ID, err)
		}
		chunks = append(chunks, key)
	}

	for field, n := range perField {
		counts = append(counts, field, n)
	}
	return chunks, counts, nil
}

// putChoices stores the choices of phases that were made from results before, and returns the keys
// written.
func (s *Store) putChoices(ctx context.Context, r record.Evaluation) (keys []string, err error) {
	for i, phase := range r.Phases {
		if phase.Choice == nil {
			continue
		}
		packed, err := encodeChoice(r.ID, i, phase.Choice)
		if err != nil {
			return nil, err
		}
		key := s.keys.Choice(r.ID, i)
		if _, err := restoreScript.Run(ctx, s.client, []string{s.keys.Record(r.ID), key}, packed, int(orphanLife.Seconds())).Int(); err != nil {
			return nil, fmt.Errorf("store what phase %d of %s compares: %w", i, r.ID, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Reopen makes an evaluation that is done or paused active again, with the settings and phases of
// r. texts, by hash, are those that these settings name. It returns false, and changes nothing, if
// the evaluation is active or cancelled.
func (s *Store) Reopen(ctx context.Context, r record.Evaluation, texts map[string]string) (bool, error) {
	settings, phases, err := encodeSettings(r)
	if err != nil {
		return false, err
	}
	keys := []string{s.keys.Record(r.ID), s.keys.Cursors(r.ID), s.keys.Documents(r.ID)}
	for _, key := range s.keysOf(r) {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	args := []any{settings, phases, rand.Text(), r.Created.UnixMilli(), r.Version()}
	for hash, text := range texts {
		args = append(args, hash, packing.Pack([]byte(text)))
	}
	reopened, err := reopenScript.Run(ctx, s.client, keys, args...).Bool()
	if err != nil {
		return false, fmt.Errorf("reopen evaluation %s: %w", r.ID, err)
	}
	return reopened, nil
}

func recordFields(r record.Evaluation) ([]any, error) {
	settings, phases, err := encodeSettings(r)
	if err != nil {
		return nil, err
	}
	fields := []any{
		fieldVersion, r.Version(),
		fieldName, r.Name,
		fieldCreated, r.Created.UnixMilli(),
		fieldStatus, string(r.Status),
		fieldSettings, settings,
		fieldPhases, phases,
	}
	if r.ResultsURL != "" {
		fields = append(fields, fieldResultsURL, r.ResultsURL)
	}
	if r.ResultsID != "" {
		fields = append(fields, fieldResultsID, r.ResultsID)
	}
	return fields, nil
}

func encodeSettings(r record.Evaluation) (settings, phases []byte, err error) {
	if settings, err = json.Marshal(r.Settings); err != nil {
		return nil, nil, fmt.Errorf("encode settings of %s: %w", r.ID, err)
	}
	if phases, err = json.Marshal(r.Phases); err != nil {
		return nil, nil, fmt.Errorf("encode phases of %s: %w", r.ID, err)
	}
	return settings, phases, nil
}

// AnnounceFilled tells workers that queue has new tasks.
func (s *Store) AnnounceFilled(ctx context.Context, queue string) error {
	return s.announce(ctx, "queue "+queue)
}

// Listen passes on announcements until ctx ends: to filled the queues that have new tasks, to
// changed the evaluations that were submitted or changed. It calls subscribed after every
// subscription, because earlier announcements may have been missed. It calls the functions one at a
// time.
func (s *Store) Listen(ctx context.Context, filled func(queue string), changed func(eval.ID), subscribed func()) {
	subscription := Universal(s).Subscribe(ctx, s.keys.Announce())
	defer subscription.Close()
	messages := subscription.ChannelWithSubscriptions()

	for {
		select {
		case heard, ok := <-messages:
			if !ok {
				return
			}
			message, ok := heard.(*redis.Message)
			if !ok {
				subscribed()
				continue
			}
			what, name, _ := strings.Cut(message.Payload, " ")
			switch what {
			case "queue":
				filled(name)
			case "evaluation":
				changed(eval.ID(name))
			}
		case <-ctx.Done():
			return
		}
	}
}

func (s *Store) announce(ctx context.Context, message string) error {
	if err := s.client.Publish(ctx, s.keys.Announce(), message).Err(); err != nil {
		return fmt.Errorf("announce %s: %w", message, err)
	}
	return nil
}
