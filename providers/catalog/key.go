package catalog

import "strings"

// KeySource says where an endpoint's key comes from that may change while a process runs. Only an operator's file names
// one, and it is not stored: who reads what another person has stored must not send a file, or run a program.
type KeySource struct {
	File    string   `json:"-"` // absolute path of the file that contains the key
	Command []string `json:"-"` // the program that prints the key, and its arguments; no shell reads them
	Dir     string   `json:"-"` // where Command runs
}

// String names the source; "" for nil, and for one that was stored.
func (k *KeySource) String() string {
	switch {
	case k == nil:
		return ""
	case k.File != "":
		return k.File
	}
	return strings.Join(k.Command, " ")
}

// KeyFrom returns the variable, the file or the program of the entry's key; "" if it needs none.
func (e Entry) KeyFrom() string {
	if e.KeyEnv != "" {
		return e.KeyEnv
	}
	return e.KeySource.String()
}
