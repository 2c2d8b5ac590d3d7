package report

import "testing"

func TestWholePercents(t *testing.T) {
	t.Parallel()
	got, want := string(wholePercents("84 % of 3 pairs, 33.3 %, “<b>” & 5 items.")), "84&nbsp;% of 3 pairs, 33.3&nbsp;%, “&lt;b&gt;” &amp; 5 items."
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
