package config

import (
	"path/filepath"
	"testing"
)

// The shipped examples load unchanged, without a warning.
func TestExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../examples/*/evaluation.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("examples: got %q (%v), want some", files, err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			s, err := loadEvaluation(file, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Warnings) > 0 {
				t.Errorf("warnings: got\n%v\nwant none", Problems(s.Warnings))
			}
		})
	}
}
