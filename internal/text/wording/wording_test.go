package wording

import "testing"

func TestCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000"} {
		if got := Count(n); got != want {
			t.Errorf("%d is written %s, want %s", n, got, want)
		}
	}
}

func TestCounted(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 runs", 1: "1 run", 2: "2 runs", 2000: "2,000 runs"} {
		if got := Counted(n, "run"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := Either(int64(1200), "line is", "lines are"); got != "1,200 lines are" {
		t.Errorf("got %q", got)
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		runes int
		want  string
	}{{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"字字字", 2, "字字…"}} {
		if got := Clip(c.text, c.runes); got != c.want {
			t.Errorf("%q to %d: got %q, want %q", c.text, c.runes, got, c.want)
		}
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]string{0: "0", 3: "3", 0.5: "0.5", 10.0 / 3: "3.333", 12345: "12345", 1e21: "1000000000000000000000", 5e-7: "0"} {
		if got := Plain(x); got != want {
			t.Errorf("%v: got %q, want %q", x, got, want)
		}
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 bytes", 1: "1 byte", 999: "999 bytes", 1000: "1.0 kB", 12_345: "12.3 kB", 999_949: "999.9 kB", 999_999: "1.0 MB", 4_100_000: "4.1 MB",
		3_000_000_000: "3.0 GB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
