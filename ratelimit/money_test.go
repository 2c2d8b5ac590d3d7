package ratelimit

import "testing"

func TestDollars(t *testing.T) {
	t.Parallel()
	for nano, want := range map[int64]string{
		0: "$0.00", 60_000_000: "$0.06", 59_000_000: "$0.059", 500_000_000: "$0.50", 123_456_789: "$0.1235", 41_678_912: "$0.04168", 1_234_567: "$0.001235",
		12_345: "$0.000012", 999_999_999: "$1.00", Dollar: "$1.00", 12_345_678_901: "$12.35",
		999_990_000_000: "$999.99", 1000 * Dollar: "$1,000.00", 1_234_567_890_000_000: "$1,234,567.89", -1234 * Dollar: "-$1,234.00", -60_000_000: "-$0.06",
	} {
		if got := Dollars(nano); got != want {
			t.Errorf("Dollars(%d) = %s, want %s", nano, got, want)
		}
	}
}
