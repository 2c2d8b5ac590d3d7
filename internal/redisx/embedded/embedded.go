// Package embedded runs a Redis inside a process, so that a single command is enough on one
// machine.
//
// It is miniredis, listening on a loopback address with a random password. It keeps nothing when
// the process ends: the results store has everything that must last. It is for one machine and its
// own process; a fleet needs a real Redis.
package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// AddressFile is the file, in an output folder, that contains the URL of the Redis of an active
// run. Only its owner can read it, because it contains the password.
const AddressFile = "redis.url"

// tick is how often expiry times advance. miniredis has no clock of its own, and each advance walks
// all keys.
const tick = time.Second

// Redis is a running embedded server.
type Redis struct {
	server *miniredis.Miniredis
	url    string
	file   string
	stop   context.CancelFunc
	ended  chan struct{}
}

// Start starts a server and writes its address into dir.
func Start(dir string) (*Redis, error) {
	server := miniredis.NewMiniRedis()
	password := rand.Text()
	server.RequireAuth(password)
	if err := server.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start embedded Redis: %w", err)
	}
	address := url.URL{Scheme: "redis", User: url.UserPassword("", password), Host: server.Addr()}
	r := &Redis{server: server, url: address.String(), file: filepath.Join(dir, AddressFile), ended: make(chan struct{})}
	if err := writePrivate(r.file, r.url+"\n"); err != nil {
		server.Close()
		return nil, fmt.Errorf("write the embedded Redis's address: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go r.keepTime(ctx)
	return r, nil
}

// URL returns the server's address with its password.
func (r *Redis) URL() string { return r.url }

// Close ends the server and removes its address.
func (r *Redis) Close() error {
	r.stop()
	<-r.ended
	r.server.Close()
	if err := os.Remove(r.file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the embedded Redis's address: %w", err)
	}
	return nil
}

func (r *Redis) keepTime(ctx context.Context) {
	defer close(r.ended)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case now := <-ticker.C:
			r.server.FastForward(now.Sub(last))
			last = now
		case <-ctx.Done():
			return
		}
	}
}

// writePrivate replaces a file by one that only its owner can read.
func writePrivate(path, content string) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = temporary.WriteString(content)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
	}
	return err
}

// Address returns the URL of the Redis of the active run in dir; os.ErrNotExist if there is none.
// An address that is not on this machine is an error: no run wrote it.
func Address(dir string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, AddressFile))
	if err != nil {
		return "", err
	}
	address := strings.TrimSpace(string(raw))
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "redis" || !net.ParseIP(parsed.Hostname()).IsLoopback() {
		return "", fmt.Errorf("%s does not contain the address of a Redis on this machine: delete it", filepath.Join(dir, AddressFile))
	}
	return address, nil
}
