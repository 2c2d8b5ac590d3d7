package outdir

import (
	"bufio"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/evalfleet/evalfleet/internal/machine/lockfile"
)

// keyFile holds the key of a user's seals, below the folder of the user's state.
const keyFile = "evalfleet/resume.key"

// Owner marks each resume.json that this user has written. A file without the mark, or changed
// since, may come from another person, so the addresses and paths in it are not used. Without a
// folder for a user's state, nothing is marked.
type Owner struct{ path string }

// NewOwner finds the folder of the user's state.
func NewOwner(env func(string) (string, bool)) Owner {
	for _, state := range []struct{ variable, below string }{
		{"XDG_STATE_HOME", ""}, {"HOME", filepath.Join(".local", "state")}, {"LocalAppData", ""},
	} {
		if dir, ok := env(state.variable); ok && filepath.IsAbs(dir) {
			return Owner{filepath.Join(dir, state.below, filepath.FromSlash(keyFile))}
		}
	}
	return Owner{}
}

// TryLock locks a name in the folder of the user's state, where no other user can prepare it. held
// is false if another process holds the lock. Without such a folder, every process holds it. unlock
// is never nil.
func (s Owner) TryLock(name string) (unlock func(), held bool, err error) {
	unlock = func() {}
	if s.path == "" || os.MkdirAll(filepath.Dir(s.path), 0o700) != nil {
		return unlock, true, nil
	}

	lock := lockfile.New(filepath.Join(filepath.Dir(s.path), name))
	if held, err = lock.TryLock(); held {
		unlock = func() { _ = lock.Unlock() }
	}
	return unlock, held, err
}

// Seal marks r, with the version that Save writes.
func (s Owner) Seal(r *Resumption) error {
	r.Version = resumeVersion
	key, err := s.key(true)
	if err != nil {
		return err
	}
	r.Seal, err = sealOf(key, *r)
	return err
}

// Sealed reports whether this user marked r and it has not changed since.
func (s Owner) Sealed(r Resumption) bool {
	key, err := s.key(false)
	if err != nil {
		return false
	}
	want, err := sealOf(key, r)
	return err == nil && hmac.Equal([]byte(want), []byte(r.Seal))
}

func sealOf(key []byte, r Resumption) (string, error) {
	r.Seal = ""
	raw, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(raw)
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// Derive returns a key of this user for a purpose. It is the same in every process of the user.
func (s Owner) Derive(purpose string) ([]byte, error) {
	key, err := s.key(true)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(purpose))
	return mac.Sum(nil), nil
}

// key reads the key, and creates it if create is set. Two processes that create it at the same time
// get the same one.
func (s Owner) key(create bool) ([]byte, error) {
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

// storesFile, next to the key of a user's seals, lists the results stores that the user has named in
// submissions. It has one per line, without passwords.
const storesFile = "sinks"

// NoteStore adds a results store to the list of those that the user has named.
func (s Owner) NoteStore(url string) error {
	saved, err := SavedURL(url)
	if url == "" || err != nil || s.path == "" || slices.Contains(s.Stores(), saved) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(filepath.Dir(s.path), storesFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, saved)
	return errors.Join(err, file.Close())
}

// Stores returns the results stores that the user has named; none if the list cannot be read.
func (s Owner) Stores() (known []string) {
	if s.path == "" {
		return nil
	}
	file, err := os.Open(filepath.Join(filepath.Dir(s.path), storesFile))
	if err != nil {
		return nil
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		known = append(known, lines.Text())
	}
	return known
}
