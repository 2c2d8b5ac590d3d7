package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServesWithPasswordUntilClosed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server, err := Start(dir)
	if err != nil {
		t.Fatal(err)
	}
	address, err := Address(dir)
	if err != nil || address != server.URL() {
		t.Fatalf("Address = %q, %v; want %q", address, err, server.URL())
	}
	info, err := os.Stat(filepath.Join(dir, AddressFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("address file has mode %v, %v; want 0600", info.Mode().Perm(), err)
	}
	options, err := redis.ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(redistest.Patient(options))
	defer client.Close()
	if err := client.Set(t.Context(), "short", "v", 100*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	stranger := redis.NewClient(redistest.Patient(&redis.Options{Addr: options.Addr}))
	defer stranger.Close()
	if err := stranger.Get(t.Context(), "short").Err(); err == nil {
		t.Fatal("a client without the password was served")
	}
	testrun.Eventually(t, "a key with a life time of 100 ms is gone: the clock moves", func() bool {
		return client.Exists(t.Context(), "short").Val() == 0
	})
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Address(dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("Address after Close: %v; want ErrNotExist", err)
	}
}

func TestFolderThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	if _, err := Start(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Fatal("Start in a missing folder succeeded")
	}
}
