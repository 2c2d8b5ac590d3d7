package providers

import "maps"

// WithTool returns the tools of a body: those in Request.Extra, and the search. If is reports that one of Extra's tools
// is the search, that tool keeps its fields, and gets only the missing fields of the search.
func WithTool(extra any, search map[string]any, is func(tool map[string]any) bool) []any {
	given, _ := extra.([]any)
	tools := make([]any, 0, len(given)+1)
	found := false
	for _, tool := range given {
		fields, isObject := tool.(map[string]any)
		if isObject && is(fields) {
			merged := maps.Clone(search)
			maps.Copy(merged, fields)
			tool, found = merged, true
		}
		tools = append(tools, tool)
	}
	if !found {
		tools = append(tools, search)
	}
	return tools
}
