package report

import "testing"

func TestShortTokens(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1 k", 1234: "1.23 k", 999_499: "999 k", 999_500: "1 M", 999_499_999: "999 M", 999_500_000: "1 G", 1_500_000_000: "1.5 G",
		999_999_999_999: "1 T", 1_230_000_000_000_000: "1230 T", 12_345: "12.3 k", 100_400: "100 k",
	} {
		if got := shortTokens(n, false); got != want {
			t.Errorf("%d tokens are %q, want %q", n, got, want)
		}
	}
	if got := shortTokens(1000, true) + ", " + shortTokens(0, true); got != "≥ 1 k, unknown" {
		t.Errorf("lower bounds are %q", got)
	}
}
