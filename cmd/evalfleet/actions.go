package main

import (
	"cmp"
	"context"

	"github.com/evalfleet/evalfleet/eval"
)

// actions steer evaluations for the pages as the commands do.
type actions struct {
	*drain
	folder string // folder of the active run; empty: a fleet's evaluations
}

func (a actions) target(id eval.ID) *target {
	return &target{drain: a.drain, id: id, name: cmp.Or(a.folder, string(id))}
}

// Pause is web.Actions.
func (a actions) Pause(ctx context.Context, id eval.ID) (string, error) {
	return a.target(id).pause(ctx)
}

// Resume is web.Actions.
func (a actions) Resume(ctx context.Context, id eval.ID) (string, error) {
	return a.target(id).resume(ctx)
}

// Cancel is web.Actions.
func (a actions) Cancel(ctx context.Context, id eval.ID) (string, error) {
	return a.target(id).cancel(ctx)
}

// Retry is web.Actions.
func (a actions) Retry(ctx context.Context, id eval.ID, classes []string) (string, error) {
	if err := checkClasses(classes); err != nil {
		return "", err
	}
	return a.target(id).retry(ctx, classes, "")
}
