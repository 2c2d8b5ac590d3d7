package harmless

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/text/wording"
)

func TestShortKeepsBothEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		columns int
		want    string
	}{
		{"abcdefghij", 10, "abcdefghij"}, {"abcdefghij", 9, "abcd…ghij"}, {"abcdefghij", 8, "abcd…hij"}, {"abcdefghij", 3, "a…j"}, {"字字字字字", 7, "字… 字"},
	} {
		got := Short(c.name, c.columns)
		if got != c.want || wording.Columns.StringWidth(got) > c.columns {
			t.Errorf("%q in %d columns: got %q of %d, want %q", c.name, c.columns, got, wording.Columns.StringWidth(got), c.want)
		}
	}
}

func TestDifferentNamesStayApart(t *testing.T) {
	t.Parallel()
	middle := func(c string) string { return strings.Repeat("a", 20) + c + strings.Repeat("z", 20) }
	names := []string{middle("1"), "short", middle("2"), middle("1"), "aaaaa…z (2)", middle("3"), middle("2") + "!"}
	want := []string{"aaaaaa…zzzzz", "short", "aaaa…zzz (2)", "aaaaaa…zzzzz", "aaaaa…z (2)", "aaaa…zzz (3)", "aaaaaa…zzzz!"}
	got := Apart(names, 12)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, short := range got {
		if n := wording.Columns.StringWidth(short); n > 12 {
			t.Errorf("%q has %d columns, want at most 12", short, n)
		}
	}
}
