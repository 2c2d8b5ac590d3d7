package providers

// Fields of OpenAI's dialects about its prompt caches.
const (
	cacheKey     = "prompt_cache_key"
	cacheOptions = "prompt_cache_options"
)

// AddCaching adds to a body in one of OpenAI's dialects, of a model with these capabilities, which cache to use and, for
// models that charge for writing, that only what is kept on purpose is written. By default, they write the whole prompt
// of every call. What the body already says holds.
func AddCaching(body map[string]any, req *Request, caps Capabilities) {
	add := func(field string, value any) {
		if _, told := body[field]; !told {
			body[field] = value
		}
	}
	breakpoints := caps.PromptCache == PromptCacheBreakpoints
	if req.CacheKey != "" && (breakpoints || caps.PromptCache == PromptCacheKey) {
		add(cacheKey, req.CacheKey)
	}
	if breakpoints && req.Prefixes != nil {
		add(cacheOptions, explicitly)
	}
}

// explicitly is the value of options that turn implicit breakpoints off, and of a breakpoint.
var explicitly = map[string]any{"mode": "explicit"}

// Breaks reports whether the body of a request may have breakpoints. It may not if the request's Extra says itself what to
// cache.
func (r *Request) Breaks(caps Capabilities) bool {
	_, told := r.Extra[cacheOptions]
	return caps.PromptCache == PromptCacheBreakpoints && !told
}

// MessageParts returns the content of a message in one of OpenAI's dialects as parts, with breakpoints if the body may
// have them. kind is the type of a part that is a text, and image returns one that is an image.
func MessageParts(req *Request, i int, breaks bool, kind string, image func(*Image) any) []any {
	var all []any
	for _, p := range req.Parts(i) {
		if p.Image != nil {
			all = append(all, image(p.Image))
			continue
		}
		part := map[string]any{"type": kind, "text": p.Text}
		if p.Keep && breaks {
			part["prompt_cache_breakpoint"] = explicitly
		}
		all = append(all, part)
	}
	return all
}
