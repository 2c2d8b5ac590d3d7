package config

import (
	"strings"

	"github.com/evalfleet/evalfleet/providers/catalog"
)

// checkPath looks at the path of an endpoint's address. With that of a request it is refused,
// because the dialect adds its own. One with too much or too little that some server might have
// is warned of.
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
