package check

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestArchiveWheels finds a wheel for each program in the folder of a release, with its checksum. The program in it is
// the one that was built.
func TestArchiveWheels(t *testing.T) {
	if *dist == "" {
		t.Skip("make snapshot builds wheels")
	}
	wheels, err := filepath.Glob(filepath.Join(*dist, "wheels", "evalfleet-*.whl"))
	if err != nil || len(wheels) != 6 {
		t.Fatalf("wheels %v, %v, want six", wheels, err)
	}
	checksums, err := os.ReadFile(filepath.Join(*dist, "checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Glob(filepath.Join(*dist, "evalfleet_*_*", "evalfleet*"))
	if err != nil || len(programs) != 6 {
		t.Fatalf("programs %v, %v, want six", programs, err)
	}
	var built [][]byte
	for _, path := range programs {
		program, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		built = append(built, program)
	}

	for _, path := range wheels {
		wheel, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if line := fmt.Sprintf("%x  %s\n", sha256.Sum256(wheel), filepath.Base(path)); !strings.Contains(string(checksums), line) {
			t.Errorf("checksums.txt has no line %q", line)
		}
		carried := carriedBy(t, path)
		at := slices.IndexFunc(built, func(program []byte) bool { return bytes.Equal(program, carried) })
		if at < 0 {
			t.Errorf("the program in %s is none that was built, or is in another wheel, too", filepath.Base(path))
			continue
		}
		built = slices.Delete(built, at, at+1)
	}
}

// carriedBy returns the program in a wheel.
func carriedBy(t *testing.T, path string) []byte {
	t.Helper()
	archive, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	for _, file := range archive.File {
		if !strings.HasPrefix(file.Name, "evalfleet/bin/evalfleet") {
			continue
		}
		if file.Mode() != 0o755 {
			t.Errorf("the program in %s has mode %v", filepath.Base(path), file.Mode())
		}
		content, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer content.Close()
		program, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		return program
	}
	return nil
}
