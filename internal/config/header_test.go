package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval/foreign/judgments"
)

// Every reader of tables checks headers in the same way: a header that it cannot use is refused with the place of the
// column and a fix, and space, a byte order mark and the ends of lines change nothing.
func TestHeadersOfTables(t *testing.T) {
	t.Parallel()
	submitted := func(t *testing.T, head, text string) string {
		files := with(voteAnswers, "eval.yaml", head+"judges: [simulator:careful]\n", "t.csv", text)
		dir := folder(t, files)
		if _, err := loadEvaluation(filepath.Join(dir, "eval.yaml"), Options{}); err != nil {
			return without(dir, err.Error())
		}
		return ""
	}
	for name, reader := range map[string]struct {
		header, row string
		read        func(t *testing.T, text string) string
		otherCase   string // what the reader says if its last column is written in upper case; empty: it takes it
		unnamed     bool   // a column without a name is ignored
	}{
		"pairs": {"item,candidate_a,candidate_b", "q1,x,y", func(t *testing.T, text string) string {
			return submitted(t, "documents: {jsonl: a.jsonl}\npairwise: {pairs: {file: t.csv}}\n", text)
		}, "t.csv:1:18: CANDIDATE_B: unknown column; rename it candidate_b", true},
		"votes": {"item,candidate_a,candidate_b,annotator,winner", "q1,x,y,anna,x", func(t *testing.T, text string) string {
			return submitted(t, "documents: {jsonl: a.jsonl}\npairwise: {}\nvotes: t.csv\n", text)
		}, "t.csv:1:40: WINNER: unknown column; rename it winner", false},
		"answers": {"item,candidate,text", "q,x,A", func(t *testing.T, text string) string {
			return submitted(t, "documents: {answers: t.csv}\nsingle: {criteria: [style]}\n", text)
		}, "t.csv:1: no known kind of answers; its first row has TEXT, candidate, item", true},
		"prompts": {"api,model_name,prompt", "test,m,?", func(t *testing.T, text string) string {
			s, problems := experimentOf(t, "t.csv", text, Options{})
			if s != nil {
				return ""
			}
			return problems
		}, "t.csv:1:16: PROMPT: unknown column; rename it prompt", false},
		"verdicts": {"model_a,model_b,winner", "x,y,x", func(t *testing.T, text string) string {
			dir := folder(t, map[string]string{"t.csv": text})
			if err := Rows(filepath.Join(dir, "t.csv"), func(_ int, row judgments.Row) error {
				_, err := judgments.Battles.ReadRow(row, judgments.Options{})
				return err
			}); err != nil {
				return without(dir, err.Error())
			}
			return ""
		}, "", false},
	} {
		first, _, _ := strings.Cut(reader.header, ",")
		start := strings.LastIndexByte(reader.header, ',') + 1
		last := fmt.Sprintf("t.csv:1:%d: ", len(reader.header)+2)
		twice := last + first + ": a second column has this name; give each column a unique name"
		unnamed := fmt.Sprintf("%scolumn %d has no name; give each column a unique name", last, strings.Count(reader.header, ",")+2)
		if reader.unnamed {
			unnamed = ""
		}
		for what, c := range map[string]struct{ text, want string }{
			"as it should be":     {reader.header + "\n" + reader.row + "\n", ""},
			"a byte order mark":   {"\ufeff" + reader.header + "\n" + reader.row + "\n", ""},
			"space around names":  {strings.ReplaceAll(reader.header, ",", " , ") + " \n" + reader.row + "\n", ""},
			"CRLF":                {reader.header + "\r\n" + reader.row + "\r\n", ""},
			"carriage returns":    {reader.header + "\r" + reader.row + "\r", "its lines end with carriage returns alone; save the file with line feeds (LF or CRLF)"},
			"another encoding":    {"caf\xe9," + reader.header + "\n1," + reader.row + "\n", "not UTF-8"},
			"a column twice":      {reader.header + "," + first + "\n" + reader.row + ",z\n", twice},
			"twice but for space": {reader.header + "," + first + " \n" + reader.row + ",z\n", twice},
			"no name":             {reader.header + ",\n" + reader.row + ",z\n", unnamed},
			"a header only":       {reader.header + "\n", "t.csv:1: there are no rows below the header"},
			"another case":        {reader.header[:start] + strings.ToUpper(reader.header[start:]) + "\n" + reader.row + "\n", reader.otherCase},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				got := reader.read(t, c.text)
				if !strings.Contains(got, c.want) || c.want == "" && got != "" || strings.Contains(got, "\n") {
					t.Errorf("got\n%s\nwant\n%s", got, c.want)
				}
			})
		}
	}
}
