package catalog

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// requestPaths matches the ends of request addresses, which a dialect adds to its base URL.
var requestPaths = regexp.MustCompile(`(?i)/(?:chat/completions|completions|responses|messages|api/chat|api/generate|` +
	`models/[^/]+:(?:stream)?generateContent)$`)

// versions matches the version at the end of a base URL. Some dialects require it there, and the others add their own.
var versions = regexp.MustCompile(`(?i)/(?:v\d+(?:beta\d*|alpha)?|api)$`)

// unversioned lists hosts, and domains of hosts, whose base URLs have no path.
var unversioned = []string{"api.deepseek.com", "api.perplexity.ai"}

// OtherAddress returns the base URL that was probably meant instead of the entry's; empty if the entry's looks normal.
// certain means that the entry's cannot be a server's base URL.
func (e Entry) OtherAddress() (other string, certain bool) {
	u, err := url.Parse(e.BaseURL)
	if err != nil || u.Host == "" {
		return "", false
	}
	u.RawPath, u.Path = "", strings.TrimRight(u.Path, "/")

	versioned := e.Dialect == Chat || e.Dialect == Responses || e.Dialect == Simulator // in the base URL
	if path := requestPaths.ReplaceAllString(u.Path, ""); path != u.Path {
		if u.Path = path; !versioned {
			u.Path = versions.ReplaceAllString(path, "")
		}
		return u.String(), true
	}

	switch {
	case versioned && u.Path == "" && slices.ContainsFunc(unversioned, e.CalledAt):
		return "", false
	case versioned && u.Path == "" && e.CalledAt("azure.com"):
		u.Path = "/openai/v1"
	case versioned && u.Path == "":
		u.Path = "/v1"
	case !versioned && versions.MatchString(u.Path):
		u.Path = versions.ReplaceAllString(u.Path, "")
	default:
		return "", false
	}

	return u.String(), false
}

// Alternative returns the base URL to try if the entry's has no such path: OtherAddress, or the entry's without its
// version; empty: there is none.
func (e Entry) Alternative() string {
	if other, _ := e.OtherAddress(); other != "" {
		return other
	}
	u, err := url.Parse(e.BaseURL)
	if err != nil || u.Host == "" {
		return ""
	}
	path := strings.TrimRight(u.Path, "/")
	if u.Path, u.RawPath = versions.ReplaceAllString(path, ""), ""; u.Path == path {
		return ""
	}
	return u.String()
}
