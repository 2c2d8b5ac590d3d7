package record

import "testing"

func TestKeeps(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ runs, want int }{
		{1, 1}, {keptWhole, keptWhole}, {keptWhole + 1, keptWhole/keptShare + 1}, {1_000_000, 10_000},
	} {
		e := Evaluation{Phases: []Phase{{Runs: test.runs / 2}, {Runs: test.runs - test.runs/2}}}
		got := 0
		for index := range test.runs { // as if one phase held them all
			if e.Keeps(index) {
				got++
			}
		}
		if got != test.want {
			t.Errorf("of %d runs %d are kept, want %d", test.runs, got, test.want)
		}
	}
}
