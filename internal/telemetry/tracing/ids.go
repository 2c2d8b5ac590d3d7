package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"

	"github.com/evalfleet/evalfleet/enqueue/record"
)

// runIDs holds the IDs of a run's trace and of its root span.
type runIDs struct {
	trace trace.TraceID
	span  trace.SpanID
}

// idsOf returns the trace and span IDs of a run. They are the same in every worker that handles the run: the first 16
// bytes of the SHA-256 of its task's ID, and the 8 that follow.
func idsOf(t record.Task) runIDs {
	sum := sha256.Sum256([]byte(t.ID()))
	return runIDs{trace.TraceID(sum[:16]), trace.SpanID(sum[16:24])}
}

// ids generates IDs: a run's span gets the IDs in its context, and every other span a random one.
type ids struct{}

type idsKey struct{}

func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	of := ctx.Value(idsKey{}).(runIDs)
	return of.trace, of.span
}

func (ids) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	for !id.IsValid() {
		binary.BigEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}
