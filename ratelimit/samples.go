package ratelimit

import (
	"context"
	"fmt"
	"strconv"
)

// Sample is what a settled call used: input tokens for each byte that it sent, and
// output tokens.
type Sample struct{ PerByte, Output float64 }

// ShareSamples adds samples of a model's settled calls to those of all workers. It returns the last 200 samples of all
// workers and how many there ever were.
func (a *Admin) ShareSamples(ctx context.Context, model string, fresh []Sample) (last []Sample, ever int, err error) {
	args := make([]any, len(fresh))
	for i, s := range fresh {
		args[i] = strconv.FormatFloat(s.PerByte, 'g', 6, 64) + " " + strconv.FormatFloat(s.Output, 'f', 0, 64)
	}
	reply, err := samplesScript.Run(ctx, a.client, []string{a.keys.samples(model)}, args...).StringSlice()
	if err != nil {
		return nil, 0, fmt.Errorf("share samples of %s: %w", model, err)
	}
	if _, err := fmt.Sscan(reply[0], &ever); err != nil {
		return nil, 0, fmt.Errorf("share samples of %s: %w", model, err)
	}
	for _, text := range reply[1:] {
		var s Sample
		if _, err := fmt.Sscan(text, &s.PerByte, &s.Output); err != nil {
			return nil, 0, fmt.Errorf("share samples of %s: %w", model, err)
		}
		last = append(last, s)
	}
	return last, ever, nil
}
