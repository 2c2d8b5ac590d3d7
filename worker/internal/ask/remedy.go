package ask

import (
	"maps"
	"regexp"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
)

// withRemedy returns the provider's message about a failed call. If it names one of the judge's overrides, withRemedy
// adds what to change.
func withRemedy(target eval.Judge, failed *providers.Error) string {
	if failed.Class != providers.BadRequest {
		return failed.Message
	}
	for _, key := range slices.Sorted(maps.Keys(target.Overrides)) {
		if !regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(key) + `\b`).MatchString(failed.Message) {
			continue
		}
		remedy := "; remove " + key + " from the overrides of " + target.Target()
		if key == "temperature" {
			remedy += ", or set sampling: never for it under providers." + target.Provider + ".models"
		}
		return failed.Message + remedy
	}
	return failed.Message
}
