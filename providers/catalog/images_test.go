package catalog

import (
	"testing"

	"github.com/evalfleet/evalfleet/providers"
)

// Which models take images, from the table or from a user's own rule, which wins.
func TestWhichModelsTakeImages(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	own := func(images *bool) Entry {
		return Entry{Name: "own", Dialect: Chat, Models: []Rule{{Models: []string{"m"}, Facts: Facts{Images: images}}}}
	}
	like := Entry{Name: "second", Like: "openai", Dialect: Responses}
	for _, test := range []struct {
		of    Entry
		model string
		want  providers.Sight
		count providers.ImageCount
	}{
		{BuiltIn()["openai"], "gpt-4o-2024-08-06", providers.Sees, providers.ImagesTiled85},
		{BuiltIn()["openai"], "gpt-4o-mini", providers.Sees, providers.ImagesTiled2833},
		{BuiltIn()["openai-chat"], "gpt-5-nano", providers.Sees, providers.ImagesPatched246},
		{BuiltIn()["openai"], "gpt-5", providers.Sees, providers.ImagesTiled70},
		{BuiltIn()["openai"], "gpt-6.1-sol", providers.Sees, providers.ImagesPatched},
		{BuiltIn()["openai"], "o3-mini", providers.Blind, ""},
		{BuiltIn()["openai"], "o3", providers.Sees, providers.ImagesTiled75},
		{BuiltIn()["openai"], "gpt-3.5-turbo", providers.Blind, ""},
		{BuiltIn()["openai"], "davinci", providers.SightUnknown, ""},
		{like, "gpt-4.1-mini", providers.Sees, providers.ImagesPatched162},
		{BuiltIn()["azure-openai"], "my-deployment", providers.SightUnknown, ""},
		{BuiltIn()["anthropic"], "claude-2.1", providers.Blind, ""},
		{BuiltIn()["anthropic"], "claude-sonnet-4-5-20250929", providers.Sees, providers.ImagesByArea},
		{BuiltIn()["anthropic"], "claude-opus-5-5", providers.Sees, providers.ImagesByFineArea},
		{BuiltIn()["google"], "gemini-1.5-flash-002", providers.Sees, providers.ImagesTiled258},
		{BuiltIn()["google"], "gemini-3.1-pro", providers.Sees, providers.ImagesFixed},
		{BuiltIn()["google"], "gemma-3-27b", providers.SightUnknown, ""},
		{BuiltIn()["ollama"], "llava:13b", providers.Sees, ""},
		{BuiltIn()["ollama"], "llama3.2", providers.SightUnknown, ""},
		{own(nil), "m1", providers.SightUnknown, ""},
		{own(&yes), "m1", providers.Sees, ""},
		{own(&no), "m1", providers.Blind, ""},
		{own(&yes), "other", providers.SightUnknown, ""},
	} {
		got := test.of.Capabilities(test.model)
		if got.Images != test.want || got.ImageCount != test.count {
			t.Errorf("%s:%s: got %q, counted %q; want %q, %q", test.of.Name, test.model, got.Images, got.ImageCount, test.want, test.count)
		}
	}
}
