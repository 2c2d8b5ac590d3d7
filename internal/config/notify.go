package config

import (
	"cmp"

	"github.com/evalfleet/evalfleet/internal/machine/hostname"
)

// DefaultNotifySecret is the environment variable that holds the secret of notify unless secret_env
// names another.
const DefaultNotifySecret = "EVALFLEET_NOTIFY_SECRET"

// Notify is the receiver that a controller notifies when an evaluation has ended or stopped.
type Notify struct {
	URL       string // of the receiver; empty: none
	SecretEnv string // environment variable with the secret that signs
	Pages     string // address of the controller's pages, for a link to the report; may be empty
}

// notify reads the notify block of the fleet file.
func (y *yamlFile) notify(v value) Notify {
	var n Notify
	y.mapping(v, keys{
		"url":        func(v value) { n.URL = y.webAddress(v, "https://hooks.example.org/evalfleet") },
		"secret_env": func(v value) { n.SecretEnv = y.environmentName(v) },
		"pages":      func(v value) { n.Pages = y.webAddress(v, "https://evals.example.org") },
	})
	if n.URL == "" {
		y.refuse(v.place, `add url: "https://…"`, "url is missing")
	}
	n.SecretEnv = cmp.Or(n.SecretEnv, DefaultNotifySecret)
	return n
}

func (y *yamlFile) webAddress(v value, example string) string {
	s := y.text(v)
	if u, ok := hostname.ParseWeb(s); s == "" || ok && u.User == nil {
		return s
	}
	y.mismatch(v, "an address such as "+example)
	return ""
}
