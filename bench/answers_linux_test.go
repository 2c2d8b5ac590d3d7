package bench

import (
	"fmt"
	"io"
	"iter"
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

// answers yields answers of four models to n/4 questions, of about 300 characters each.
func answers(n int) iter.Seq2[answer, error] {
	return func(yield func(answer, error) bool) {
		random := rand.New(rand.NewPCG(1, 2))
		for i := range n {
			var words strings.Builder
			for range 45 {
				fmt.Fprintf(&words, "word%d ", random.IntN(1000))
			}
			if !yield(answer{
				fmt.Sprint("q", i/4), fmt.Sprintf("What is meant by question %d?", i/4), fmt.Sprint("model-", i%4), words.String(),
			}, nil) {
				return
			}
		}
	}
}

// battle is a row of a file of verdicts.
type battle struct{ question, a, b, winner string }

var battleTable = table.Table[battle]{
	table.Text("question_id", "", func(v battle) string { return v.question }),
	table.Text("model_a", "", func(v battle) string { return v.a }),
	table.Text("model_b", "", func(v battle) string { return v.b }),
	table.Text("winner", "", func(v battle) string { return v.winner }),
}

// battles yields n verdicts on 20 models. Models with a low number win more often.
func battles(n int) iter.Seq2[battle, error] {
	return func(yield func(battle, error) bool) {
		random := rand.New(rand.NewPCG(3, 4))
		for i := range n {
			a := random.IntN(20)
			b := (a + 1 + random.IntN(19)) % 20
			winner := "model_a"
			if random.Float64()*40 < float64(20+a-b) {
				winner = "model_b"
			}
			if !yield(battle{fmt.Sprint("q", i/4), fmt.Sprint("m", a), fmt.Sprint("m", b), winner}, nil) {
				return
			}
		}
	}
}

// BenchmarkAnswers measures how long the program takes for a million answers, and a million verdicts, and with how much
// memory: to say what a file contains, to plan and estimate their comparison, and to rank verdicts.
func BenchmarkAnswers(b *testing.B) {
	n := sized(1000, 1_000_000)
	program, dir := build(b), b.TempDir()
	given := table.Of("answers", answerTable, answers(n))
	for _, format := range []table.Format{table.JSONLines, table.CSV, table.Parquet} {
		path := sheetFile(b, dir, given, format)
		b.Run("validate"+format.Ending, func(b *testing.B) { measured(b, dir, program, "validate", path) })
		b.Run("estimate"+format.Ending, func(b *testing.B) { measured(b, dir, program, "estimate", path, "--judge", "simulator:careful") })
	}

	verdicts := table.Of("battles", battleTable, battles(n))
	for _, format := range []table.Format{table.CSV, table.Parquet} {
		path := sheetFile(b, dir, verdicts, format)
		b.Run("rank"+format.Ending, func(b *testing.B) { measured(b, dir, program, "rank", path) })
	}
}

// sheetFile writes a sheet into a folder, and returns the file's path.
func sheetFile(b *testing.B, dir string, sheet table.Sheet, format table.Format) string {
	b.Helper()
	path := filepath.Join(dir, sheet.Name+format.Ending)
	file, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	if err := format.Write(sheet, file); err != nil {
		b.Fatal(err)
	}
	if err := file.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

// measured runs a command of the program in a folder, and reports its CPU and the most memory that it used.
func measured(b *testing.B, dir, program string, args ...string) {
	b.Helper()
	for range b.N {
		command := exec.CommandContext(b.Context(), program, args...)
		command.Dir, command.Stdout = dir, io.Discard
		var said strings.Builder
		command.Stderr = &said
		if err := command.Run(); err != nil {
			b.Fatalf("%v: %v\n%.2000s", args, err, said.String())
		}
		used, ok := command.ProcessState.SysUsage().(*syscall.Rusage)
		if !ok || used.Maxrss == 0 {
			b.Fatal("the memory of the program is not known")
		}
		b.ReportMetric((command.ProcessState.UserTime() + command.ProcessState.SystemTime()).Seconds(), "cpu-s")
		b.ReportMetric(float64(used.Maxrss)/1024, "MB")
	}
}
