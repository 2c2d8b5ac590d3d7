package chat

import (
	"errors"
	"regexp"
	"sync"

	"github.com/evalfleet/evalfleet/providers"
)

// The fields of a body that bound the tokens of an answer. OpenAI's newer models refuse the older field, and older
// servers the newer one.
const (
	maxTokens           = "max_tokens"
	maxCompletionTokens = "max_completion_tokens"
)

// bounds remembers the models of an endpoint that need the other field. It is safe for concurrent use.
type bounds struct {
	mu    sync.Mutex
	other map[string]string // the field, by model
}

// rename renames the bound in a body to the field that the model is known to take.
func (b *bounds) rename(model string, body map[string]any) {
	b.mu.Lock()
	wanted := b.other[model]
	b.mu.Unlock()
	refused := other(wanted)
	bound, set := body[refused]
	if wanted == "" || !set {
		return
	}
	delete(body, refused)
	if _, both := body[wanted]; !both {
		body[wanted] = bound
	}
}

func other(field string) string {
	if field == maxTokens {
		return maxCompletionTokens
	}
	return maxTokens
}

// learn learns from err, the failure of a call with this body. If the model wants the other field, providers.ErrAgain
// is in the chain of the returned error.
func (b *bounds) learn(model string, body map[string]any, err error) error {
	var failed *providers.Error
	if !errors.As(err, &failed) || failed.Class != providers.BadRequest {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, sent := range []string{maxTokens, maxCompletionTokens} {
		_, had := body[sent]
		if !had || !refusedFields[sent].MatchString(failed.Message) || b.other[model] == sent {
			continue
		}
		if b.other == nil {
			b.other = map[string]string{}
		}
		b.other[model] = other(sent)
		failed.Err = providers.ErrAgain
		return failed
	}
	return err
}

// refusedFields match messages of endpoints that do not know a field, but not that its value is too large.
var refusedFields = map[string]*regexp.Regexp{
	maxTokens:           unknownField(maxTokens),
	maxCompletionTokens: unknownField(maxCompletionTokens),
}

func unknownField(name string) *regexp.Regexp {
	const unknown = `(?:not (?:supported|permitted|allowed|recogni[sz]ed)|unsupported|unknown|unrecogni[sz]ed|unexpected|no such|deprecated)`
	return regexp.MustCompile(`(?is)\b` + unknown + `\b.{0,60}\b` + name + `\b|\b` + name + `\b.{0,40}\b` + unknown + `\b`)
}
