package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"

	"github.com/evalfleet/evalfleet/record"
)

// runIDs are the ids of a run's trace and of its span.
type runIDs struct {
	trace trace.TraceID
	span  trace.SpanID
}

// idsOf are the same in every worker that has the run in hand: the first 16 bytes of
// the SHA-256 of its task's id, and the 8 that follow.
func idsOf(t record.Task) runIDs {
	sum := sha256.Sum256([]byte(t.ID()))
	return runIDs{trace.TraceID(sum[:16]), trace.SpanID(sum[16:24])}
}

// ids gives a run's span the IDs in its context, and every other span a random one.
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
