package outdir

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/providers/catalog"
)

// Adopt removes the settings that only the local user may make. It is for a folder in which no run
// of this user wrote the file. Files are then written only into the folder, and configured
// providers are called as configured here. It returns the addresses that differ from those here,
// one per line with a line break before it; empty: none.
func (r *Resumption) Adopt(here *config.Fleet) (differences string) {
	r.Slots, r.Grace, r.Lease = 0, 0, here.Lease
	r.Out, r.Outs, r.Data, r.Input = "", nil, "", ""
	for _, name := range slices.Sorted(maps.Keys(r.Providers)) {
		named, configured := r.Providers[name], here.Providers[name]
		named.Name = name
		named.Headers, named.CAFile, named.CertFile, named.KeyFile = nil, "", "", "" // never those of another person
		named.KeySource, named.KeyHeader = nil, ""
		switch r.Providers[name] = named; {
		case sameAddress(named, configured):
		case !sameAddress(configured, catalog.BuiltIn()[name]): // configured here, so here's applies
			r.Providers[name] = configured
		default:
			differences += fmt.Sprintf("\n  %q: %s; here: %s", name, calledAt(named), calledAt(configured))
		}
	}
	return differences
}

// sameAddress reports whether two entries send the same secrets to the same place.
func sameAddress(a, b catalog.Entry) bool {
	return a.Dialect == b.Dialect && a.BaseURL == b.BaseURL && a.KeyFrom() == b.KeyFrom() && a.KeyHeader == b.KeyHeader && a.Like == b.Like &&
		slices.Equal(a.Accounts, b.Accounts) &&
		maps.Equal(a.Headers, b.Headers) && a.CAFile == b.CAFile && a.CertFile == b.CertFile && a.KeyFile == b.KeyFile
}

// calledAt describes the address at which an entry is called, and the variable of its key.
func calledAt(e catalog.Entry) string {
	switch {
	case e.Dialect == "":
		return "not configured"
	case len(e.Accounts) > 0:
		var each []string
		for _, at := range e.Each() {
			each = append(each, fmt.Sprintf("account %q: %s", at.Name, calledAt(at)))
		}
		return strings.Join(each, ", ")
	case e.BaseURL == "":
		return fmt.Sprintf("%q without an address", e.Dialect)
	case e.KeyFrom() == "":
		return fmt.Sprintf("%q without a key", e.BaseURL)
	}
	return fmt.Sprintf("%q with the key in %q", e.BaseURL, e.KeyFrom())
}
