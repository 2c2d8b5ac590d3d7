package outdir

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/evalfleet/evalfleet/providers/catalog"
)

// mostEarlier bounds how many earlier evaluations are searched for answers.
const mostEarlier = 20

var ofEvaluation = regexp.MustCompile(`^(.+)-ev-[a-z2-7]{12}$`)

// Earlier returns the results stores of the newest output folders beside dir whose evaluations have the same name, such
// as those of a file that has changed since. It leaves out folders that are not of runs of this user, and those whose
// models were called at other addresses than called says, by the names of providers: their answers may be invented, or
// those of other models.
func (s Owner) Earlier(dir string, called map[string]catalog.Entry) []string {
	named := ofEvaluation.FindStringSubmatch(filepath.Base(dir))
	if named == nil {
		return nil
	}
	beside, _ := filepath.Glob(filepath.Join(escaped(filepath.Dir(dir)), escaped(named[1])+"-ev-*", ResultsFile))
	changed := map[string]int64{}
	for _, path := range beside {
		folder := filepath.Dir(path)
		of := ofEvaluation.FindStringSubmatch(filepath.Base(folder))
		info, err := os.Stat(path)
		if err != nil || of == nil || of[1] != named[1] || filepath.Clean(folder) == filepath.Clean(dir) || !s.vouches(folder, called) {
			continue
		}
		changed[path] = info.ModTime().UnixNano()
	}
	paths := slices.SortedFunc(maps.Keys(changed), func(a, b string) int {
		return cmp.Or(cmp.Compare(changed[b], changed[a]), cmp.Compare(a, b))
	})
	return paths[:min(len(paths), mostEarlier)]
}

// vouches reports whether this user ran a folder's evaluations, and they called the providers that they share with
// called at the same addresses.
func (s Owner) vouches(dir string, called map[string]catalog.Entry) bool {
	resumptions, _ := filepath.Glob(filepath.Join(escaped(dir), "*", ResumeFile)) // of the answers that judges compared
	for _, path := range append(resumptions, filepath.Join(dir, ResumeFile)) {
		r, err := ReadResumption(filepath.Dir(path))
		if err != nil || !s.Sealed(r) {
			return false
		}
		for name, before := range r.Providers {
			if now, shared := called[name]; shared && (now.Dialect != before.Dialect || now.BaseURL != before.BaseURL) {
				return false
			}
		}
	}
	return true
}
