package eval

import (
	"fmt"
	"math"
)

// Chances are the probabilities that a judge gave the possible verdicts on two documents. Their sum is 1.
type Chances struct {
	First  float64 `json:"first"` // that the document shown first is better
	Tie    float64 `json:"tie"`
	Second float64 `json:"second"`
}

// Share returns the expected win of the document shown first: a tie is half a win.
func (c Chances) Share() float64 { return c.First + c.Tie/2 }

// Check returns an error unless these are probabilities with the sum 1.
func (c Chances) Check() error {
	const rounding = 1e-6
	for _, p := range []float64{c.First, c.Tie, c.Second} {
		if !(p >= 0 && p <= 1) { // also refuses NaN
			return fmt.Errorf("%g is no probability", p)
		}
	}
	if sum := c.First + c.Tie + c.Second; math.Abs(sum-1) > rounding {
		return fmt.Errorf("the sum of the probabilities is %g", sum)
	}
	return nil
}
