package wording

import "testing"

func TestTiedPercents(t *testing.T) {
	t.Parallel()
	got, want := string(TiedPercents("84 % of 3 pairs, 33.3 %, “<b>” & 5 items.")), "84&nbsp;% of 3 pairs, 33.3&nbsp;%, “&lt;b&gt;” &amp; 5 items."
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
