package report

import "strings"

// families maps each family to the prefixes of its models' names.
var families = map[string][]string{
	"openai": {"gpt", "chatgpt", "o1", "o3", "o4"}, "anthropic": {"claude"}, "google": {"gemini", "gemma"}, "meta": {"llama"},
	"mistral": {"mistral", "mixtral", "ministral", "magistral", "codestral"}, "qwen": {"qwen", "qwq"}, "deepseek": {"deepseek"},
	"xai": {"grok"}, "microsoft": {"phi"}, "moonshot": {"kimi"}, "zhipu": {"glm"},
}

// familyOf returns the model family that a model's or a candidate's name implies; empty if it implies none. A word of
// the name must be a family's prefix, alone or followed by a digit.
func familyOf(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') })
	for _, word := range words {
		for family, begins := range families {
			for _, begin := range begins {
				rest, ok := strings.CutPrefix(word, begin)
				if ok && (rest == "" || rest[0] >= '0' && rest[0] <= '9') {
					return family
				}
			}
		}
	}
	return ""
}

// sameFamily reports whether a name, of a candidate or another model, implies the same family as the model, or equals
// the model without its path.
func sameFamily(model, name string) bool {
	family := familyOf(model)
	return family != "" && family == familyOf(name) || strings.EqualFold(model[strings.LastIndex(model, "/")+1:], name)
}
