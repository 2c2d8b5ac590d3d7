package config

import (
	"strings"

	"github.com/evalfleet/evalfleet/providers/catalog"
)

// checkPath refuses an endpoint's address that ends in the path of a request, because the dialect
// adds that path. It warns about a path with too much or too little, which some server might have.
func (y *yamlFile) checkPath(at place, e catalog.Entry) {
	if at == (place{}) || e.BaseURL == "" {
		return
	}
	other, certain := e.OtherAddress()
	switch {
	case other == "":
	case certain:
		y.refuse(at, "write base_url: "+quoted(other), "the address has the path of a request, which the dialect %s adds itself", e.Dialect)
	default:
		y.warn(at, "if calls fail with 404, write base_url: "+quoted(other)+"; `evalfleet doctor` tries both",
			"addresses of the dialect %s usually %s", e.Dialect, usualPath(e))
	}
}

func usualPath(e catalog.Entry) string {
	switch e.Dialect {
	case catalog.Chat, catalog.Responses, catalog.Simulator:
		return "end with a version, as in /v1"
	}
	return "end before the version"
}

func quoted(address string) string { return `"` + strings.ReplaceAll(address, `"`, "%22") + `"` }
