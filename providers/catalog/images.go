package catalog

import (
	"cmp"
	"slices"

	"github.com/evalfleet/evalfleet/providers"
)

// sight is what is known about models and images: whether the models whose names begin with one of models take them, and
// how the vendor counts them.
type sight struct {
	providers []string // empty: any
	dialect   string   // empty: any
	models    []string // as in Rule; empty: all
	takes     bool
	count     providers.ImageCount
}

// sighted lists what is known; the first that is about a model applies. Models without one are not known.
//
// Sources, read on 2026-11-30: https://developers.openai.com/api/docs/guides/images-vision and the pages of its models,
// https://platform.claude.com/docs/en/build-with-claude/vision, https://ai.google.dev/gemini-api/docs/image-understanding,
// https://ollama.com/search?c=vision.
var sighted = []sight{
	{dialect: Simulator, takes: true, count: providers.ImagesTiled85},
	{dialect: Test, takes: true},

	{providers: openAI, models: []string{"gpt-3.5", "o1-mini", "o1-preview", "o3-mini", "gpt-4o-search", "gpt-4o-mini-search"}},
	{providers: openAI, models: []string{"gpt-4o-mini"}, takes: true, count: providers.ImagesTiled2833},
	{providers: openAI, models: []string{"gpt-4o", "gpt-4.5", "gpt-4-turbo"}, takes: true, count: providers.ImagesTiled85},
	{providers: openAI, models: []string{"gpt-4.1-mini", "gpt-5-mini"}, takes: true, count: providers.ImagesPatched162},
	{providers: openAI, models: []string{"gpt-4.1-nano", "gpt-5-nano"}, takes: true, count: providers.ImagesPatched246},
	{providers: openAI, models: []string{"gpt-4.1"}, takes: true, count: providers.ImagesTiled85},
	{providers: openAI, models: []string{"o4-mini"}, takes: true, count: providers.ImagesPatched172},
	{providers: openAI, models: []string{"o1", "o3"}, takes: true, count: providers.ImagesTiled75},
	{providers: openAI, models: []string{"gpt-5"}, takes: true, count: providers.ImagesTiled70},
	{providers: openAI, models: []string{"gpt-5.", "gpt-6", "gpt-6."}, takes: true, count: providers.ImagesPatched},

	{dialect: Messages, models: []string{"claude-2", "claude-2.", "claude-instant"}},
	{dialect: Messages, models: []string{
		"claude-3", "claude-3-5", "claude-3-7", "claude-opus-4-0", "claude-opus-4-1", "claude-opus-4-20250514", "claude-opus-4-5",
		"claude-opus-4-6", "claude-sonnet-4-0", "claude-sonnet-4-20250514", "claude-sonnet-4-5", "claude-sonnet-4-6", "claude-haiku-4-5",
	}, takes: true, count: providers.ImagesByArea},
	{dialect: Messages, models: []string{"claude-"}, takes: true, count: providers.ImagesByFineArea},

	{dialect: Generate, models: []string{"gemini-1.", "gemini-2."}, takes: true, count: providers.ImagesTiled258},
	{dialect: Generate, models: []string{"gemini-"}, takes: true, count: providers.ImagesFixed},

	{dialect: Ollama, models: []string{
		"llava", "bakllava", "llama3.2-vision", "llama4", "gemma3:4b", "gemma3:12b", "gemma3:27b", "qwen2.5vl", "qwen3-vl", "minicpm-v",
		"moondream", "granite3.2-vision", "mistral-small3.1", "mistral-small3.2",
	}, takes: true},
}

var openAI = []string{"openai", "openaidp", "openai-chat", "azure-openai"}

// addImages sets what is known about images. stated is what a rule says about whether the model takes them; nil: none
// does.
func (e Entry) addImages(c *providers.Capabilities, stated *bool, model string) {
	for _, s := range sighted {
		if !e.isAmong(model, s.providers, s.dialect, s.models) {
			continue
		}
		c.ImageCount = s.count
		if c.Images = providers.Blind; s.takes {
			c.Images = providers.Sees
		}
		break
	}
	if stated == nil {
		return
	}
	if c.Images = providers.Blind; *stated {
		c.Images = providers.Sees
	}
}

// isAmong reports whether a model of the entry is one of those that are described. Empty descriptions fit all.
func (e Entry) isAmong(model string, ofProviders []string, dialect string, names []string) bool {
	about := (len(ofProviders) == 0 || slices.Contains(ofProviders, cmp.Or(e.Like, e.Name))) && (dialect == "" || dialect == e.Dialect)
	return about && (len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return isVersion(model, name) }))
}

// ImageBounds returns what the entry's endpoint accepts. Where its vendor is not known, these are OpenAI's types, and the
// bound of all.
//
// Anthropic counts the 5 MB of an image in base64, a third more than its file
// (https://platform.claude.com/docs/en/build-with-claude/vision); Google's Vertex takes 7 MB inline, and neither takes GIF
// (https://docs.cloud.google.com/vertex-ai/docs/generative-ai/image/image-captioning). Ollama decodes PNG, JPEG and WebP
// (https://github.com/ollama/ollama/blob/main/docs/api.md).
func (e Entry) ImageBounds() providers.ImageBounds {
	still := []string{providers.PNG, providers.JPEG, providers.WebP}
	switch e.Dialect {
	case Messages:
		return providers.ImageBounds{Types: providers.ImageTypes, Bytes: 5 << 20 / 4 * 3, Edge: 8000, URLs: true}
	case Generate:
		return providers.ImageBounds{Types: still, Bytes: 7 << 20}
	case Ollama:
		return providers.ImageBounds{Types: still, Bytes: providers.MaxImage}
	}
	return providers.ImageBounds{Types: providers.ImageTypes, Bytes: providers.MaxImage, URLs: true}
}
