package results

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzEscapedText(f *testing.F) {
	for _, text := range []string{"", "plain", "a\x00b", "\xff", "␛", "␛00", "␛␛\x00", "\xe2\x90", "é\u2028🦉"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		escaped := escapeText(text)
		if !utf8.ValidString(escaped) || strings.Contains(escaped, "\x00") {
			t.Errorf("%q becomes %q, which PostgreSQL refuses", text, escaped)
		}
		if back, err := unescapeText(escaped); back != text || err != nil {
			t.Errorf("%q becomes %q and %q, %v", text, escaped, back, err)
		}
	})
}

func TestEscapedText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"as it is, \\ too": "as it is, \\ too",
		"a\x00b\xff":       "a␛00b␛ff",
		"␛ stands":         "␛␛ stands",
	} {
		if got := escapeText(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	for _, broken := range []string{"␛", "␛0", "␛zz"} {
		if _, err := unescapeText(broken); err == nil {
			t.Errorf("%q was read", broken)
		}
	}
}

func TestPublic(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"":                                      "",
		"sqlite:out/a.db":                       "sqlite:out/a.db",
		"postgres://":                           "postgres://",
		"postgres:///essays":                    "postgres:///essays",
		"postgres://host/db":                    "postgres://host/db",
		"postgres://ann@host:5433/db":           "postgres://ann@host:5433/db",
		"postgres://ann:sesame@host:5433/db":    "postgres://ann@host:5433/db",
		"postgres://ann:ses@ame@host/db":        "postgres://ann@host/db",
		"postgresql://ann:sesame@a:1,b:2/db":    "postgresql://ann@a:1,b:2/db",
		"postgres://:sesame@host":               "postgres://@host",
		"postgres://h/db?password=sesame":       "postgres://h/db",
		"postgres://h/db?pass%77ord=sesame&a=b": "postgres://h/db?a=b",
		"postgres://h/db?sslpassword=sesame&search_path=essays&sslmode=require": "postgres://h/db?search_path=essays&sslmode=require",
		"host=/run/postgresql dbname=essays":                                    "host=/run/postgresql dbname=essays",
	} {
		if got, err := Public(url); got != want || err != nil {
			t.Errorf("%s: got %s, %v, want %s", url, got, err, want)
		}
	}
	for _, url := range []string{
		"postgres://ann:s/esame@host/db", "postgres://ann:1/sesame@host/db", "postgres://ann:s?esame@host/db", "postgres://ann:s#esame@host/db",
		"host=h password=sesame", "host=h password = 'sesame'", "password=sesame host=h", "user=ann sslpassword=sesame",
	} {
		if got, err := Public(url); err == nil || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: got %s, %v, want an error without the password", url, got, err)
		}
	}
}
