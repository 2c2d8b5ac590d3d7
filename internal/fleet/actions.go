package fleet

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/providers"
)

// Actions implements web.Actions: it steers evaluations for the pages as the commands do.
type Actions struct {
	*Connection
	Folder string // of the active run; empty: a fleet's evaluations
}

func (a Actions) target(id eval.ID) *Target {
	return &Target{Connection: a.Connection, ID: id, Name: cmp.Or(a.Folder, string(id))}
}

// Pause implements web.Actions.
func (a Actions) Pause(ctx context.Context, id eval.ID) (string, error) {
	return a.target(id).Pause(ctx)
}

// Resume implements web.Actions.
func (a Actions) Resume(ctx context.Context, id eval.ID) (string, error) {
	return a.target(id).Resume(ctx)
}

// Cancel implements web.Actions.
func (a Actions) Cancel(ctx context.Context, id eval.ID) (string, error) {
	return a.target(id).Cancel(ctx)
}

// Retry implements web.Actions.
func (a Actions) Retry(ctx context.Context, id eval.ID, classes []string) (string, error) {
	if err := CheckClasses(classes); err != nil {
		return "", err
	}
	return a.target(id).Retry(ctx, classes, "")
}

// CheckClasses refuses words that are not error classes.
func CheckClasses(classes []string) error {
	var known []string
	for _, class := range providers.Classes {
		known = append(known, string(class))
	}
	for _, class := range classes {
		if slices.Contains(known, class) {
			continue
		}
		if near := wording.Nearest(class, known); near != "" {
			return failure.Usagef("unknown error class %s; did you mean %s?", class, near)
		}
		return failure.Usagef("unknown error class %s; want %s", class, strings.Join(known, ", "))
	}
	return nil
}
