package wording

import (
	"html/template"
	"regexp"
)

var spacedPercent = regexp.MustCompile(`(\d) %`)

// TiedPercents escapes a text for HTML, and ties percent signs to their numbers, so that no line
// ends between them.
func TiedPercents(s string) template.HTML {
	return template.HTML(spacedPercent.ReplaceAllString(template.HTMLEscapeString(s), "$1&nbsp;%"))
}
