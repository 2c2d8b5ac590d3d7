package dial

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
)

// ReadPassword reads a file with a password, which may end with line breaks.
func ReadPassword(path string) (string, error) {
	raw, err := os.ReadFile(path)
	return strings.TrimRight(string(raw), "\r\n"), err
}

// credentials returns what a new connection logs in with, read from PasswordFile; nil where the
// password cannot change: without such a file, or with a password in the URL.
func (s Settings) credentials(user, inURL string) func(context.Context) (string, string, error) {
	if s.PasswordFile == "" || inURL != "" {
		return nil
	}
	var mu sync.Mutex // guards last
	last := ""
	return func(context.Context) (string, string, error) {
		password, err := ReadPassword(s.PasswordFile)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil && password != "":
			last = password
		case last == "":
			return user, cmp.Or(password, s.Password), wrapped(s.PasswordFile, err)
		}
		// While the file is replaced, the last password is used.
		return user, last, nil
	}
}

func wrapped(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read the password of Redis from %s: %w", path, err)
}
