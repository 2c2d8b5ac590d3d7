package config

import (
	"net/url"
	"strings"
	"testing"
)

func TestProxyOfTheEnvironment(t *testing.T) {
	t.Parallel()
	proxy, err := Proxy(env("HTTPS_PROXY", "http://secure.example:3128", "http_proxy", "plain.example:80", "NO_PROXY", ".internal.example,10.0.0.0/8"))
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]string{
		"https://api.example.com/v1":       "http://secure.example:3128",
		"http://api.example.com/v1":        "http://plain.example:80",
		"https://llm.internal.example/v1":  "",
		"http://10.1.2.3:8000/v1":          "",
		"http://127.0.0.1:11434/api/chat":  "",
		"https://localhost:8443/v1":        "",
		"https://internal.example.com/v1/": "http://secure.example:3128",
	} {
		at, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if via, err := proxy(at); err != nil {
			t.Error(err)
		} else if via != nil {
			got = via.String()
		}
		if got != want {
			t.Errorf("%s: got proxy %q, want %q", target, got, want)
		}
	}
	_, err = Proxy(env("HTTP_PROXY", "http://me:secret@%zz"))
	if err == nil || !strings.HasPrefix(err.Error(), "HTTP_PROXY: ") || strings.Contains(err.Error(), "secret") {
		t.Errorf("an invalid proxy: got %v, want an error that names the variable alone", err)
	}
}
