package main

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/results"
	"github.com/evalfleet/evalfleet/web"
)

// pageNumbers reads for the pages what `status` says of failures and of use from
// results stores, as seldom as it does.
type pageNumbers struct {
	open func(context.Context, eval.ID) (results.Reader, error)
	log  zerolog.Logger

	mu    sync.Mutex // held while reading: one sink at a time is summed up
	looks sinkLooks
}

func (p *pageNumbers) read(ctx context.Context, e web.Evaluation) web.Numbers {
	p.mu.Lock()
	defer p.mu.Unlock()
	open := func() results.Reader {
		reader, err := p.open(ctx, e.ID)
		if err != nil {
			p.log.Debug().Err(err).Str("evaluation", string(e.ID)).Msg("results cannot be read from here")
			return nil
		}
		return reader
	}
	line := &standing{Evaluation: e.ID, Status: e.Status, Uncollected: int64(e.Uncollected)}
	numbers, err := p.looks.numbers(ctx, line, time.Now(), open, readUse)
	if err != nil {
		p.log.Debug().Err(err).Str("evaluation", string(e.ID)).Msg("results cannot be read")
	}
	if numbers == nil {
		return web.Numbers{}
	}
	u := numbers.used
	n := web.Numbers{Calls: u.Calls, CostUSD: u.CostUSD, Unpriced: u.Unpriced, Failed: classes(numbers.classes), ByClass: numbers.classes}
	if u.Calls+u.FromCache > 0 {
		n.Cost = u.costText()
	}
	return n
}
