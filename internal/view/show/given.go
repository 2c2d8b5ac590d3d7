package show

import (
	"context"
	"fmt"

	"github.com/evalfleet/evalfleet/eval"
)

// given returns a verdict that was given elsewhere. Such runs have no place in a plan, no prompt and no calls: all that
// is known is in the results store.
func (f *reading) given(ctx context.Context) (*Run, error) {
	row, found, err := f.Results.Run(ctx, f.id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, unknown{fmt.Errorf("%s has no run %s: its verdicts were read from files, and `evalfleet ui` lists them",
			f.id.Evaluation, f.id.Short())}
	}
	run := &Run{
		ID: f.id.String(), Evaluation: f.id.Evaluation, Name: f.Asked.Name, Kind: row.Kind, State: row.State, Generation: row.Generation,
		Outcome: &row.Run, Where: "sink", Judge: row.Judge, Model: row.Model, Item: row.Item,
		Documents: row.Documents, Candidates: row.Candidates, Trial: row.Trial, Prompt: []Turn{}, Calls: []Call{},
		Given: true, Unordered: f.Asked.Pairwise != nil && f.Asked.Pairwise.Order == eval.OrderUnknown,
	}
	return run, nil
}
