//go:build unix

package main

import "testing"

// TestFullDiskAtTheStart: a results store for which there is no room is no
// beginning of one either.
func TestFullDiskAtTheStart(t *testing.T) {
	t.Parallel()
	const blocks = "8" // of 512 bytes, that a file may have
	for _, c := range []badInput{
		{"new folder", "run good.yaml --out-dir deep/out", nil, "", exitUnreachable, "deep/out/results.db: no space left: make room"},
		{"folder with something else", "run good.yaml --out-dir out", map[string]string{"out/notes.txt": "Mine."}, "", exitUnreachable, "no space left: make room"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, "sh", "-c", `ulimit -f "$0" && exec "$@"`, blocks)
		})
	}
}
