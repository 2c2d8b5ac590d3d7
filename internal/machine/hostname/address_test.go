package hostname

import "testing"

// An address of a web server has the scheme http or https and a host.
func TestParseWeb(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"http://127.0.0.1:9090": true, "https://ann@evals.example.org/x?y=1": true, "HTTPS://example.org": true,
		"": false, "example.org": false, "//example.org": false, "http:/example.org": false, "http://": false,
		"ftp://example.org": false, "redis://example.org": false, "http://exa mple.org": false, "https://[::1": false,
	} {
		u, ok := ParseWeb(text)
		if ok != want || ok != (u != nil) {
			t.Errorf("%q: got %v, %t; want a URL: %t", text, u, ok, want)
		}
	}
}
