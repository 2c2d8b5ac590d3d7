package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/tools/providers/replay/expect"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: replay FOLDER")
		os.Exit(2)
	}
	wrong, err := replay(context.Background(), os.Args[1], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if wrong > 0 {
		os.Exit(1)
	}
}

// tally counts the recordings of one dialect.
type tally struct{ read, right, failures, searches, repeated, unfit int }

// replay makes the dialects read every recorded answer below the folder. It prints each difference and a table, and
// returns how many answers were read wrong.
func replay(ctx context.Context, folder string, out io.Writer) (wrong int, err error) {
	r := openRoad()
	defer r.close()
	tallies, unfit, seen := map[string]*tally{}, map[string]int{}, map[[sha256.Size]byte]bool{}
	checked := 0
	skipped, err := recordings(folder, func(recorded recording) {
		c, ok := callOf(recorded)
		if !ok {
			return
		}
		t := tallies[c.dialect]
		if t == nil {
			t = &tally{}
			tallies[c.dialect] = t
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", c.dialect, recorded.status, recorded.response))
		if seen[sum] {
			t.repeated++
			return
		}
		seen[sum] = true
		want, reason := expect.Of(c.dialect, recorded.status, recorded.response)
		if recorded.numbersForWords() {
			reason = "numbers in place of words, as the request asked"
		}
		if reason != "" {
			t.unfit++
			unfit[c.dialect+": "+reason]++
			return
		}
		parameters, differences := checkTable(c, recorded)
		checked += parameters
		recorded.response = expect.Body(recorded.response)
		t.read++
		if want.Classes != nil {
			t.failures++
		}
		if want.Searches+want.Pages > 0 {
			t.searches++
		}
		result, err := r.take(providers.WithReading(ctx, providers.Reading{Most: len(recorded.response)}), c, recorded)
		differences = append(differences, judge(want, result, err)...)
		if len(differences) == 0 {
			t.right++
			return
		}
		wrong++
		fmt.Fprintf(out, "%s (%s, %s, HTTP %d)\n", recorded.name(), c.host, c.model, recorded.status)
		for _, difference := range differences {
			fmt.Fprintf(out, "    %s\n", difference)
		}
	})
	if err != nil {
		return wrong, err
	}

	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "dialect\tanswers\tread right\tfailures among them\twith a search\trepeated\tnot judged\t")
	var sum tally
	for _, dialect := range slices.Sorted(maps.Keys(tallies)) {
		t := tallies[dialect]
		row(table, dialect, *t)
		sum = tally{
			sum.read + t.read, sum.right + t.right, sum.failures + t.failures, sum.searches + t.searches,
			sum.repeated + t.repeated, sum.unfit + t.unfit,
		}
	}

	row(table, "all", sum)
	_ = table.Flush() // the caller's writer
	for _, reason := range slices.Sorted(maps.Keys(unfit)) {
		fmt.Fprintf(out, "not judged: %s (%d)\n", reason, unfit[reason])
	}
	fmt.Fprintf(out, "temperatures and efforts of requests compared with models.yaml: %d\n", checked)
	fmt.Fprintf(out, "files that are no cassettes: %d\n", skipped)
	return wrong, nil
}

func row(table io.Writer, name string, t tally) {
	fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t\n", name, t.read, t.right, t.failures, t.searches, t.repeated, t.unfit)
}
