package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
)

// Dollar is a US dollar in nano-USD, the unit of all amounts of money. Prices in whole thousandths of a dollar per
// million tokens are whole numbers of it.
const Dollar = 1_000_000_000

// Dollars formats an amount of nano-USD for people, in whole cents, with commas between thousands. Below a dollar it
// has up to four significant digits, and at most six decimals.
func Dollars(nano int64) string { return USD(float64(nano) / Dollar) }

// USD formats an amount of US dollars as Dollars does.
func USD(dollars float64) string {
	decimals := 6
	switch size := math.Abs(dollars); {
	case size >= 1:
		decimals = 2
	case size >= 0.1:
		decimals = 4
	case size >= 0.01:
		decimals = 5
	}
	whole, fraction, _ := strings.Cut(fmt.Sprintf("%.*f", decimals, math.Abs(dollars)), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	sign := ""
	if dollars < 0 {
		sign = "-"
	}
	return sign + "$" + whole + "." + fraction[:2] + strings.TrimRight(fraction[2:], "0")
}

// Budget bounds the total cost of an evaluation's calls, in nano-USD: the amount spent plus
// what calls in flight may still cost never exceeds it. A call that is not settled, because its
// outcome is unknown, costs its reservation.
//
// A budget admits no call before TellSpent. After a loss of memory, or when another server may
// lack the last writes, it admits none until TellSpent again: the amount spent is then unknown.
func Budget(evaluation string, nano int64) Limit {
	return Limit{Scope: Scope{Evaluation: evaluation}, Kind: Cost, Max: nano}
}

// ErrMemory means that Redis may have forgotten something since a number was read, so nothing was done. Read the number
// again.
var ErrMemory = errors.New("redis may have lost more of the limits meanwhile")

// TellSpent opens the budget of an evaluation by telling Redis the amount, in nano-USD, that was spent before Redis
// began to count. If Redis remembers more, the greater amount counts. memory is the name that Memory gave when the
// amount was read, "" for any: in another memory TellSpent does nothing and returns ErrMemory. TellSpent does nothing
// if the budget is open, and may be repeated.
func (a *Admin) TellSpent(ctx context.Context, evaluation, memory string, nano int64) error {
	err := a.Remember(ctx) // an amount recorded without an epoch would count in every later epoch
	told := int64(0)
	if err == nil {
		keys := []string{a.keys.money(Budget(evaluation, 0).ID()), a.keys.registry(), a.keys.alive(), a.keys.changes()}
		told, err = spentScript.Run(ctx, a.client, keys, nano, a.keys.wake(""), memory).Int64()
	}
	if err == nil && told < 0 {
		err = ErrMemory
	}
	if err != nil {
		return fmt.Errorf("restore the amount spent of %s: %w", evaluation, err)
	}
	return nil
}

// Untold reports whether the budget of an evaluation is closed, because Redis may have forgotten what was spent. It
// opens when TellSpent is called. counted are the IDs of leases that the budget counts already: the amount passed to
// TellSpent must not include their calls.
func (a *Admin) Untold(ctx context.Context, evaluation string) (untold bool, counted []string, err error) {
	id := Budget(evaluation, 0).ID()
	told, err := a.client.HExists(ctx, a.keys.money(id), "told").Result()
	if err == nil && !told {
		counted, err = a.client.ZRange(ctx, a.keys.leases(id), 0, -1).Result()
	}
	if err != nil {
		return false, nil, fmt.Errorf("read what %s has spent: %w", evaluation, err)
	}
	return !told, counted, nil
}

// ForgetSpent drops the amount counted against the budget of a deleted evaluation, so that
// another with its ID starts from 0. While it has calls in flight, or if the amount changes
// meanwhile, ForgetSpent does nothing and done is false.
func (a *Admin) ForgetSpent(ctx context.Context, evaluation string) (done bool, err error) {
	id := Budget(evaluation, 0).ID()
	keys := []string{a.keys.money(id), a.keys.leases(id)}
	saved, err := a.client.HMGet(ctx, keys[0], "used", "told", "base").Result()
	if err == nil {
		for i, value := range saved {
			if value == nil {
				saved[i] = "0"
			}
		}
		done, err = unspendScript.Run(ctx, a.client, keys, saved...).Bool()
	}
	if err != nil {
		return false, fmt.Errorf("forget what %s has spent: %w", evaluation, err)
	}
	return done, nil
}
