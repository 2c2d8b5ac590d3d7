package main

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/evalfleet/evalfleet/config"
)

// keyFile holds the key of a user's seals, below the folder of the user's state.
const keyFile = "evalfleet/resume.key"

// sealer marks each resume.json as written by this user. One without the mark, or changed
// since, may come from another person: the addresses and paths in it are not used. Without a
// folder for a user's state, nothing is marked.
type sealer struct{ path string }

// newSealer finds the folder of the user's state.
func newSealer(env config.Lookup) sealer {
	for _, state := range []struct{ variable, below string }{
		{"XDG_STATE_HOME", ""}, {"HOME", filepath.Join(".local", "state")}, {"LocalAppData", ""},
	} {
		if dir, ok := env(state.variable); ok && filepath.IsAbs(dir) {
			return sealer{filepath.Join(dir, state.below, filepath.FromSlash(keyFile))}
		}
	}
	return sealer{}
}

// seal marks r.
func (s sealer) seal(r *resumption) error {
	key, err := s.key(true)
	if err != nil {
		return err
	}
	r.Seal, err = sealOf(key, *r)
	return err
}

// sealed reports whether r was marked here and is as it was then.
func (s sealer) sealed(r resumption) bool {
	key, err := s.key(false)
	if err != nil {
		return false
	}
	want, err := sealOf(key, r)
	return err == nil && hmac.Equal([]byte(want), []byte(r.Seal))
}

func sealOf(key []byte, r resumption) (string, error) {
	r.Seal = ""
	raw, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(raw)
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// key reads the key, and makes it where create asks for that. Two processes that make
// it at the same time get the same one.
func (s sealer) key(create bool) ([]byte, error) {
	if s.path == "" {
		return nil, errors.New("no HOME or XDG_STATE_HOME")
	}
	key, err := os.ReadFile(s.path)
	if !errors.Is(err, fs.ErrNotExist) || !create {
		return key, err
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return nil, err
	}
	whole := s.path + "." + rand.Text()
	if err := os.WriteFile(whole, []byte(rand.Text()+rand.Text()), 0o600); err != nil {
		return nil, err
	}
	defer os.Remove(whole)
	if err := os.Link(whole, s.path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(s.path)
}
