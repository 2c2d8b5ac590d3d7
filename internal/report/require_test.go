package report

import (
	"encoding/xml"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/providers"
)

func TestRequirements(t *testing.T) {
	t.Parallel()
	m := tournament([]string{"new", "old", "a, b", "x<=y"}, names(40), []string{"a", "b"}, []float64{0, 0}, 6)
	r := built(t, m.withFailures(3, providers.Refused, "no"), Options{})
	for text, want := range map[string]bool{
		"new >= old @ 0.95":     true,
		"new>=old@0.99":         true,
		"old <= new @ 0.95":     true,
		"old >= new @ 0.95":     false,
		"a, b >= old @ 0.6":     false,
		`a, b >= "x<=y" @ 0.6`:  true,
		`new >= "x<=y" @ 0.95`:  true,
		"failed <= 3":           true,
		"failed <= 2":           false,
		"failed <= 50%":         true,
		"failed <= 0.1%":        false,
		"missing <= 0":          true,
		"kappa >= 0":            true,
		"kappa >= 0.999":        false,
		"flips <= 100%":         true,
		"people >= -1":          false, // there are no votes
		"cost <= 0":             true,
		"trust >= unknown":      true,
		"trust >= caution":      true,
		"trust >= sound":        false, // the judges agree fairly
		"  kappa   >=  -0.5   ": true,
	} {
		q, err := ParseRequirement(text)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		got, err := q.Check(r)
		if err != nil || got.Met != want || got.Got == "" {
			t.Errorf("%s: got %+v, %v; want met: %t", text, got, err, want)
		}
	}
	q, err := ParseRequirement("new >= odl @ 0.95")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Check(r); err == nil || !strings.Contains(err.Error(), `no candidate "odl": want one of`) {
		t.Errorf("unknown candidate: %v", err)
	}
}

// Where all verdicts went one way, an error of 0 would make any record certain.
func TestRequirementOfAPerfectRecord(t *testing.T) {
	t.Parallel()
	for items, want := range map[int]bool{1: false, 3: false, 5: false, 6: true} {
		e := plan([]string{"old", "new"}, names(items), "j")
		m := sourceOf(e)
		for _, item := range names(items) {
			m.verdict(0, item+"/new", item+"/old", item+"/new", "better")
			m.verdict(0, item+"/old", item+"/new", item+"/new", "better")
		}
		r := built(t, m, Options{})
		q, err := ParseRequirement("new >= old @ 0.95")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := q.Check(r); err != nil || got.Met != want {
			t.Errorf("%d of %d items: %+v, %v; want met: %t", items, items, got, err, want)
		}
	}
}

func TestRequirementsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                      "want NEW >= OLD @ 0.95",
		"new > old @ 0.95":      "want NEW >= OLD @ 0.95",
		"new >= old @ 95":       "a confidence between 0.5 and 1",
		"new >= old @ 0.5":      "a confidence between 0.5 and 1",
		"new >= old":            `unknown number "new"`,
		"kappa >= forty":        "is not a number",
		"kappa >= NaN":          "is not a number",
		"kappa >= 40%":          "is not a share",
		"trust >= good":         "want trust >= sound, caution, unsound or unknown",
		"trust <= sound":        "want trust >= sound, caution, unsound or unknown",
		"flips <= 0.2":          "write its bound in percent",
		"failed <= 1% @ 0":      "a confidence between 0.5 and 1",
		"new >= old @ 0.95 x":   "want NEW >= OLD @ 0.95",
		"new >= old >= a @ 0.9": "want NEW >= OLD @ 0.95",
	} {
		if _, err := ParseRequirement(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

func TestJUnit(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := WriteJUnit(&out, "essays", []Checked{{"a >= b @ 0.95", true, "<fine>"}, {"failed <= 1%", false, "failed is \"3\""}}); err != nil {
		t.Fatal(err)
	}
	var suite struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Name    string `xml:"name,attr"`
			Output  string `xml:"system-out"`
			Failure *struct {
				Message string `xml:"message,attr"`
			} `xml:"failure"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal([]byte(out.String()), &suite); err != nil {
		t.Fatal(err)
	}
	if suite.Tests != 2 || suite.Failures != 1 || len(suite.Cases) != 2 || suite.Cases[0].Failure != nil || suite.Cases[0].Output != "<fine>" || suite.Cases[1].Failure.Message != `failed is "3"` {
		t.Errorf("got %+v of\n%s", suite, out.String())
	}
}
