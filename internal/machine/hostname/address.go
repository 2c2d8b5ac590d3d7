package hostname

import "net/url"

// ParseWeb returns the URL in text. ok is false unless it is an http or https URL with a host.
func ParseWeb(text string) (u *url.URL, ok bool) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, false
	}
	return u, true
}
