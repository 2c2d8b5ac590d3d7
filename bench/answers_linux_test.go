package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/internal/table"
)

// answer is a row of a file of answers.
type answer struct{ item, question, model, output string }

var answerTable = table.Table[answer]{
	table.Text("item", "", func(a answer) string { return a.item }),
	table.Text("question", "", func(a answer) string { return a.question }),
	table.Text("model", "", func(a answer) string { return a.model }),
	table.Text("output", "", func(a answer) string { return a.output }),
}

// BenchmarkAnswers measures how long the program takes to read a million answers of four models, of about 300 characters
// each, from JSON lines, CSV and Parquet, and to rank a million verdicts on 20 candidates, and with how much memory.
func BenchmarkAnswers(b *testing.B) {
	n := sized(1000, 1_000_000)
	program, dir := build(b), b.TempDir()
	for _, file := range []struct {
		name  string
		write func(*bufio.Writer) error
		args  []string
	}{
		{"answers.jsonl", answersOf(n).JSONL, []string{"validate"}},
		{"answers.csv", answersOf(n).CSV, []string{"validate"}},
		{"answers.parquet", answersOf(n).Parquet, []string{"validate"}},
		{"battles.csv", battles(n), []string{"rank", "--out-dir", filepath.Join(dir, "ranked")}},
	} {
		path := filepath.Join(dir, file.name)
		write(b, path, file.write)
		b.Run(file.args[0]+"/"+file.name, func(b *testing.B) {
			for b.Loop() {
				run(b, program, append(file.args, path)...)
			}
		})
	}
	b.Run("estimate/answers.parquet", func(b *testing.B) {
		for b.Loop() {
			run(b, program, "estimate", filepath.Join(dir, "answers.parquet"), "--judge", "simulator:careful")
		}
	})
}
