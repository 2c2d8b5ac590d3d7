package wording

import (
	"html/template"
	"regexp"
)

var spacedPercent = regexp.MustCompile(`(\d) %`)

// TiedPercents escapes a text for HTML, and replaces the space before a percent sign by one at which no line breaks.
func TiedPercents(s string) template.HTML {
	return template.HTML(spacedPercent.ReplaceAllString(template.HTMLEscapeString(s), "$1&nbsp;%"))
}
