package ratelimit

import (
	"context"
	"fmt"
)

// Dollar is a US dollar in nano-USD, the unit that money is counted in: prices of
// whole thousandths of a dollar for a million tokens are whole numbers of it.
const Dollar = 1_000_000_000

// Dollars is an amount of nano-USD for people: whole cents from a dollar on, six
// digits below.
func Dollars(nano int64) string {
	if nano != 0 && nano > -Dollar && nano < Dollar {
		return fmt.Sprintf("$%.6f", float64(nano)/Dollar)
	}
	return fmt.Sprintf("$%.2f", float64(nano)/Dollar)
}

// Budget bounds the total cost of an evaluation's calls, in nano-USD: the amount spent plus
// what calls in flight may still cost never exceeds it. A call that is not settled, because its
// outcome is unknown, costs its reservation.
//
// A budget admits no call before TellSpent, and after a loss of memory none until TellSpent:
// the amount spent is then unknown, not 0.
func Budget(evaluation string, nano int64) Limit {
	return Limit{Scope: Scope{Evaluation: evaluation}, Kind: Cost, Max: nano}
}

// TellSpent says what an evaluation had spent of its budget, in nano-USD, before
// Redis began to count, which opens the budget. It changes nothing where Redis has
// been told before, and may be repeated.
func (l *Limiter) TellSpent(ctx context.Context, evaluation string, nano int64) error {
	keys := []string{l.keys.money(Budget(evaluation, 0).ID()), l.keys.registry(), l.keys.alive()}
	if err := spentScript.Run(ctx, l.client, keys, nano, l.keys.wake("")).Err(); err != nil {
		return fmt.Errorf("tell the budget of %s what was spent: %w", evaluation, err)
	}
	return nil
}

// ForgetSpent drops the amount counted against the budget of a deleted evaluation, so that
// another with its ID starts from 0. While it has calls in flight, ForgetSpent does nothing and
// done is false.
func (l *Limiter) ForgetSpent(ctx context.Context, evaluation string) (done bool, err error) {
	id := Budget(evaluation, 0).ID()
	now, err := l.client.Time(ctx).Result()
	var flying int64
	if err == nil {
		flying, err = l.client.ZCount(ctx, l.keys.leases(id), fmt.Sprintf("(%d", now.UnixMicro()), "+inf").Result()
	}
	if err == nil && flying == 0 {
		err = l.client.Del(ctx, l.keys.money(id), l.keys.leases(id)).Err()
	}
	if err != nil {
		return false, fmt.Errorf("forget what %s has spent: %w", evaluation, err)
	}
	return flying == 0, nil
}
