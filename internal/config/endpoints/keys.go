package endpoints

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/machine/command"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/providers/transport"
)

const (
	// fileEvery is how often a file is read again while there are requests, and programEvery how often a program is run
	// again, in the background. Access tokens live for an hour.
	fileEvery    = time.Second
	programEvery = 5 * time.Minute
	// renewApart is the time between two runs of a program because its key was refused.
	renewApart = 10 * time.Second
	longestKey = 8 << 10 // bytes; servers refuse longer headers
)

// sourcedKeys holds the key of an endpoint that is in a file, or that a program prints. If it cannot be read again, the
// last one stays.
type sourcedKeys struct {
	source catalog.KeySource
	every  time.Duration

	loading sync.Mutex // held while the key is read
	renewed time.Time  // when the program was run last because its key was refused; guarded by loading

	mu   sync.Mutex // guards the fields below
	key  string
	read time.Time // when the key was read last, or that was tried
}

// openKeys reads an entry's key from its KeySource for the first time. The error is a *providers.Error of class Auth.
func openKeys(ctx context.Context, e catalog.Entry) (transport.Keys, error) {
	k := &sourcedKeys{source: *e.KeySource, every: fileEvery}
	if k.source.File == "" {
		k.every = programEvery
	}
	if err := k.load(ctx); err != nil {
		return nil, &providers.Error{Class: providers.Auth, Message: fmt.Sprintf("provider %s has no key: %v", e.Name, err), Err: err}
	}
	return k, nil
}

// Key implements transport.Keys.
func (k *sourcedKeys) Key() string {
	key, due := k.current()
	switch {
	case !due || !k.loading.TryLock(): // another request reads it
		return key
	case k.source.File == "":
		go func() {
			defer k.loading.Unlock()
			_ = k.load(context.Background()) // the next request whose key is refused shows it
		}()
		return key
	}

	defer k.loading.Unlock()
	_ = k.load(context.Background()) // likewise
	key, _ = k.current()
	return key
}

// Renew implements transport.Keys. Requests whose keys are refused together read the key once.
func (k *sourcedKeys) Renew(ctx context.Context, refused string) bool {
	k.loading.Lock()
	defer k.loading.Unlock()
	if key, _ := k.current(); key != refused {
		return true
	}
	if k.source.File == "" && time.Since(k.renewed) < renewApart {
		return false
	}

	err := k.load(ctx)
	k.renewed = time.Now()
	key, _ := k.current()
	return err == nil && key != refused
}

// current returns the key, and whether it is due to be read again.
func (k *sourcedKeys) current() (key string, due bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.key, time.Since(k.read) >= k.every
}

// load reads the key.
func (k *sourcedKeys) load(ctx context.Context) error {
	key, err := readKey(ctx, k.source)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.read = time.Now()
	if err == nil {
		k.key = key
	}
	return err
}

// readKey reads a key from its source. Its errors never contain the key.
func readKey(ctx context.Context, source catalog.KeySource) (string, error) {
	read, what := readFile, "the file "+source.File
	if source.File == "" {
		read, what = runProgram, "api_key_command"
	}
	raw, err := read(ctx, source)
	if err != nil {
		return "", err
	}

	switch key := string(bytes.TrimSpace(raw)); {
	case len(raw) > longestKey:
		return "", fmt.Errorf("%s is longer than %d bytes", what, longestKey)
	case key == "":
		return "", errors.New(what + " is empty")
	case transport.CheckKey(key) != nil:
		return "", fmt.Errorf("%s: %w", what, transport.ErrKey)
	default:
		return key, nil
	}
}

func readFile(_ context.Context, source catalog.KeySource) ([]byte, error) {
	file, err := config.OpenRegular(source.File) // reading a pipe may never end
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source.File, err)
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, longestKey+1))
}

func runProgram(ctx context.Context, source catalog.KeySource) ([]byte, error) {
	printed, err := command.Program{Words: source.Command, Dir: source.Dir}.Output(ctx)
	if err != nil {
		return nil, fmt.Errorf("api_key_command: %w", err)
	}
	return printed, nil
}

// lacking returns what a provider that was not picked lacks: its unset variables, or why its key cannot be read.
func lacking(e catalog.Entry, env config.Lookup, missing error) []string {
	var failed *providers.Error
	if unset := e.Unset(env); len(unset) > 0 || e.KeySource == nil || !errors.As(missing, &failed) {
		return unset
	}
	return []string{failed.Message}
}
