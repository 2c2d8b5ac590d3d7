package dial

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
)

// ReadPassword reads a file with a password, and removes line breaks at its end.
func ReadPassword(path string) (string, error) {
	raw, err := os.ReadFile(path)
	return strings.TrimRight(string(raw), "\r\n"), err
}

// credentials returns a function that returns the user and password for a new connection, read from
// PasswordFile. It is nil if the password cannot change: without such a file, or with a password in
// the URL.
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
		// While the file is being replaced, use the last password.
		return user, last, nil
	}
}

func wrapped(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read the password of Redis from %s: %w", path, err)
}
