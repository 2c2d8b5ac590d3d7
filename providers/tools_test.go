package providers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWithTool(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	search := object{"type": "web_search", "max_uses": 5}
	isSearch := func(tool object) bool { return tool["type"] == "web_search" }
	for _, test := range []struct {
		name  string
		extra any
		want  []any
	}{
		{"none given", nil, []any{search}},
		{"another tool", []any{object{"type": "code"}}, []any{object{"type": "code"}, search}},
		// https://developers.openai.com/api/docs/guides/tools-web-search
		{
			"the search, with settings of its own",
			[]any{object{"type": "web_search", "search_context_size": "low", "max_uses": 2, "filters": object{"allowed_domains": []any{"who.int"}}}},
			[]any{object{"type": "web_search", "search_context_size": "low", "max_uses": 2, "filters": object{"allowed_domains": []any{"who.int"}}}},
		},
		{"no list", "x", []any{search}},
	} {
		if diff := cmp.Diff(test.want, WithTool(test.extra, search, isSearch)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
