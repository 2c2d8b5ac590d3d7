package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/evalfleet/evalfleet/eval/foreign/judgments"
)

type parquetTurn struct {
	Role    string `parquet:"role"`
	Content string `parquet:"content"`
}

type parquetAnswer struct {
	Question string        `parquet:"question,dict"`
	Model    *string       `parquet:"model,optional"`
	Turns    []parquetTurn `parquet:"turns,list"`
	Output   string        `parquet:"output"`
}

// parquetFile writes a file of rows, and returns its path.
func parquetFile[T any](t *testing.T, dir, name string, rows []T) string {
	t.Helper()
	var out bytes.Buffer
	if err := parquet.Write(&out, rows, parquet.Compression(&parquet.Snappy)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func parquetAnswers() (rows []parquetAnswer) {
	for i := range 3 {
		for _, model := range []string{"x", "y"} {
			text := fmt.Sprintf("Answer %d of %s.", i, model)
			rows = append(rows, parquetAnswer{
				Question: fmt.Sprintf("Question %d?", i), Model: &model, Output: text,
				Turns: []parquetTurn{{"user", "hi"}, {"assistant", "In turns: " + text}},
			})
		}
	}
	return rows
}

func TestAnswersInParquet(t *testing.T) {
	dir := t.TempDir()
	path := parquetFile(t, dir, "answers.parquet", parquetAnswers())
	in := InputAt(path)
	if in.Kind != AnswersFile {
		t.Fatalf("recognised as %q", in.Kind)
	}
	s, err := in.Load([]string{"simulator:careful"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(s.Taken, "\n"), "6 answers of 2 candidates to 3 items"; !strings.Contains(got, want) {
		t.Errorf("took %q, want %q", got, want)
	}

	file := filepath.Join(dir, "eval.yaml")
	text := "documents: {answers: answers.parquet, text: \"turns[-1].content\"}\njudges: [simulator:careful]\npairwise: {}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = loadEvaluation(file, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, d := range s.Evaluation.Documents {
		if got := s.Texts[d.Hash]; !strings.HasPrefix(got, "In turns: Answer ") {
			t.Errorf("the text of %s is %q", d.ID, got)
		}
	}
}

func TestItemsInParquet(t *testing.T) {
	type item struct {
		Item     string `parquet:"item"`
		Question string `parquet:"question"`
		Country  string `parquet:"country"`
	}
	dir := t.TempDir()
	parquetFile(t, dir, "items.parquet", []item{{"q1", "Capital?", "France"}, {"q2", "Capital?", "Peru"}})
	file := filepath.Join(dir, "eval.yaml")
	text := "prompts: \"{{question}} Of {{country}}.\"\nmodels: [simulator:careful, simulator:random]\nitems: items.parquet\n" +
		"judges: [simulator:careful]\npairwise: {}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := loadEvaluation(file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, text := range s.Texts {
		found = found || strings.Contains(text, "Capital? Of Peru.")
	}
	if !found {
		t.Errorf("no prompt asks about q2: %q", s.Texts)
	}
}

func TestVerdictsInParquet(t *testing.T) {
	type battle struct {
		ModelA string `parquet:"model_a"`
		ModelB string `parquet:"model_b"`
		Winner string `parquet:"winner"`
	}
	path := parquetFile(t, t.TempDir(), "battles.parquet", []battle{{"x", "y", "model_a"}, {"y", "x", "tie"}})
	var got []string
	err := Rows(path, func(line int, row judgments.Row) error {
		got = append(got, fmt.Sprintf("%d %s %s", line, row["model_a"], row["winner"]))
		return nil
	})
	if want := []string{`1 "x" "model_a"`, `2 "y" "tie"`}; err != nil || strings.Join(got, ",") != strings.Join(want, ",") {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// TestProblemsInParquet expects the row and the column of a problem.
func TestProblemsInParquet(t *testing.T) {
	dir := t.TempDir()
	rows := parquetAnswers()
	whole, err := os.ReadFile(parquetFile(t, dir, "whole.parquet", rows))
	if err != nil {
		t.Fatal(err)
	}
	rows[3].Output = "\xff"
	other := []struct {
		Country string `parquet:"country"`
	}{{"Peru"}}
	for path, want := range map[string]string{
		parquetFile(t, dir, "bytes.parquet", rows):  "bytes.parquet:4: output: the value is not UTF-8; write texts as UTF-8",
		parquetFile(t, dir, "other.parquet", other): "other.parquet:1: no known kind of answers; its first row has country; name its fields",
	} {
		_, err := InputAt(path).Load([]string{"simulator:careful"}, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}

	cut := filepath.Join(dir, "cut.parquet")
	if err := os.WriteFile(cut, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = InputAt(cut).Load([]string{"simulator:careful"}, Options{})
	if problems := (Problems)(nil); !errors.As(err, &problems) || !strings.Contains(err.Error(), "cut.parquet: the Parquet file is damaged: its end is missing") {
		t.Errorf("got %v", err)
	}
}
