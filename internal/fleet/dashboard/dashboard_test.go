package dashboard

import (
	"strings"
	"testing"
)

// asynqmon's page contains the URL of a Prometheus, and no password.
func TestPrometheusURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                           "",
		"http://prometheus:9090":     "http://prometheus:9090",
		"https://prom.example/of/us": "https://prom.example/of/us",
		`http://prom/"</script>`:     "http://prom/%22%3C/script%3E",
	} {
		if got, err := PrometheusURL(text); err != nil || got != want {
			t.Errorf("%q: got %q and %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"prometheus:9090":          "want a URL",
		"ftp://prometheus":         "want a URL",
		"http://me:secret@prom":    "must not contain a user or password",
		"http://me:secret@prom:no": "want a URL",
	} {
		if got, err := PrometheusURL(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %q and %v, want %q", text, got, err, want)
		}
	}
}
