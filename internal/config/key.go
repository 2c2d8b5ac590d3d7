package config

import (
	"path/filepath"

	"github.com/evalfleet/evalfleet/providers/catalog"
)

// keySources returns the keys of a provider, or of an account, that say where its key is if it is in no variable.
func (y *yamlFile) keySources(source **catalog.KeySource) keys {
	set := func(v value, to catalog.KeySource) {
		if *source != nil {
			y.refuse(v.key, "remove one of them", "a key from both a file and a command")
		}
		*source = &to
	}

	return keys{
		"api_key_file": func(v value) {
			path := y.absolute(v)
			if path == "" {
				y.refuse(v.place, "for example /run/secrets/openai", "there is no file")
				return
			}
			set(v, catalog.KeySource{File: path})
		},
		"api_key_command": func(v value) {
			words := y.words(v, "[gcloud, auth, print-access-token]")
			dir, err := filepath.Abs(filepath.Dir(y.name))
			if err != nil {
				y.refuse(v.place, "", "%s", err)
			}
			set(v, catalog.KeySource{Command: words, Dir: dir})
		},
	}
}

// oneKey returns the variable of the key of a provider, or of an account, which is inherited unless it says where its key
// is. It refuses a variable beside a source.
func (y *yamlFile) oneKey(v value, variable, inherited string, source *catalog.KeySource) string {
	switch {
	case source == nil:
		return variable
	case variable != inherited:
		y.refuse(v.key, "remove api_key_env", "a key from both a variable and %s", source)
	}
	return ""
}
