package results

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/harmless"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/record"
)

// experiment writes an experiment's files as prompto writes them, so that what reads
// those reads these: its lines with their answers, its input and a log.
type experiment struct {
	place Place
	of    Evaluation
	from  Reader
}

// write writes them all. completed is the path of the lines with their answers, and all
// are those of the others.
func (x *experiment) write(ctx context.Context) (completed string, all []string, err error) {
	folder, below := x.place.Dir, ""
	name := eval.FileName(x.of.Plan.Name)
	if x.place.Data != "" {
		folder, below = x.place.Data, filepath.Join("output", name)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", nil, explainFile(folder, err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return "", nil, fmt.Errorf("data folder: %w", err)
	}
	defer root.Close()
	ending := ".jsonl"
	if _, err := os.Stat(x.place.Input); err != nil { // it has gone since it was read
		x.place.Input = ""
	}
	if x.place.Input != "" {
		ending = filepath.Ext(x.place.Input)
	}
	files := []struct {
		what, ending string
		wanted       bool
		write        func(context.Context, io.Writer) error
	}{
		{"input", ending, true, x.input},
		{"log", ".txt", true, x.log},
		{"completed", ".csv", x.place.CSV, x.csv},
		{"completed", ".jsonl", true, x.lines},
	}
	for _, f := range files {
		if !f.wanted {
			continue
		}
		path := filepath.Join(below, fmt.Sprintf("%s-%s-%s%s", stampPython(x.of.Created), f.what, name, f.ending))
		if err := WriteFile(root, path, func(w io.Writer) error { return f.write(ctx, w) }); err != nil {
			return "", all, err
		}
		all = append(all, filepath.Join(folder, path))
	}
	last := len(all) - 1
	return all[last], all[:last], nil
}

// stampPython is a time in the zone of this machine, as file names and lines have it.
func stampPython(t time.Time) string { return t.Local().Format("02-01-2006-15-04-05") }

// input copies the experiment's file, or writes its lines where it is not here.
func (x *experiment) input(ctx context.Context, w io.Writer) error {
	if x.place.Input != "" {
		file, err := os.Open(x.place.Input)
		if err == nil {
			defer file.Close()
			_, err = io.Copy(w, file)
		}
		return err
	}
	for _, prompt := range x.of.Plan.Prompts.List {
		text, err := x.text(ctx, prompt.Row)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, text+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// text is a row's line as it was written.
func (x *experiment) text(ctx context.Context, row int) (string, error) {
	return x.from.Text(ctx, x.of.Plan.Prompts.Rows[row].Hash)
}

// completed calls use for the line of each prompt that has ended, with its answer, in the
// order in which they did.
func (x *experiment) completed(ctx context.Context, use func(object) error) error {
	for row, err := range x.from.PromptRows(ctx, x.of.ID) {
		if err != nil {
			return err
		}
		text, err := x.text(ctx, x.of.Plan.Prompts.List[row.Index].Row)
		if err != nil {
			return err
		}
		line, err := parseObject(text)
		if err != nil {
			return fmt.Errorf("line of prompt %s: %w", row.Name, err)
		}
		sent := row.Sent
		if sent.IsZero() {
			sent = row.Ended
		}
		line.set("timestamp_sent", quoted(stampPython(sent)))
		line.set("response", responseOfPrompt(row))
		safety, err := x.safety(ctx, line, row)
		if err != nil {
			return err
		}
		if safety != nil {
			line.set("safety_attributes", safety)
		}
		if row.State == eval.StateFailed.String() {
			line.set("error", quoted(fmt.Sprintf("%s: %s", row.Class, row.Error)))
		}
		if err := use(line); err != nil {
			return err
		}
	}
	return nil
}

// responseOfPrompt is the value of the answer field: the answer, a list of answers, or an
// explanation of why there is none.
func responseOfPrompt(row PromptRow) json.RawMessage {
	switch {
	case row.State == eval.StateFailed.String():
		return quoted(failureText(row.Run))
	case row.Answers == nil:
		return quoted(row.Answer)
	}
	list := bytes.NewBufferString("[")
	for i, answer := range row.Answers {
		if i > 0 {
			list.WriteString(", ")
		}
		quotePython(list, answer)
	}
	list.WriteByte(']')
	return list.Bytes()
}

// pythonErrors are the names of errors, as OpenAI's library has them, that say what a
// class of failures does.
var pythonErrors = map[providers.Class]string{
	providers.RateLimited: "RateLimitError", providers.QuotaDaily: "RateLimitError", providers.QuotaBilling: "RateLimitError",
	providers.Overloaded: "InternalServerError", providers.Transient: "APIError", providers.Timeout: "APITimeoutError",
	providers.ContextLength: "BadRequestError", providers.BadRequest: "BadRequestError", providers.Refused: "BadRequestError",
	providers.Auth: "AuthenticationError", providers.ModelUnavailable: "NotFoundError",
}

// failureText replaces a missing answer. Readers of such files know it by its two forms: an
// error of the line itself, and a failed call.
func failureText(run record.Run) string {
	provider, _, _ := strings.Cut(run.Model, ":")
	name := pythonErrors[run.Class]
	if name == "" {
		name = "Exception"
	}
	switch {
	case run.Attempts == 0:
		return "TypeError - " + run.Error
	case provider == "test" && run.Class == providers.BadRequest:
		return "ValueError - " + run.Error
	case provider == "test":
		name = "Exception"
	}
	return fmt.Sprintf("An unexpected error occurred when querying the API: (%s - %s) after maximum %d attempts", name, run.Error, run.Attempts)
}

func (x *experiment) lines(ctx context.Context, w io.Writer) error {
	var out bytes.Buffer
	return x.completed(ctx, func(line object) error {
		out.Reset()
		if err := line.python(&out); err != nil {
			return err
		}
		out.WriteByte('\n')
		_, err := w.Write(out.Bytes())
		return err
	})
}

// csv writes the lines as a table with the union of all keys as columns, in order of first
// appearance. Texts are inert; lists and objects are JSON.
func (x *experiment) csv(ctx context.Context, w io.Writer) error {
	var header []string
	at := map[string]int{}
	err := x.completed(ctx, func(line object) error {
		for _, f := range line {
			if _, known := at[f.name]; !known {
				at[f.name] = len(header)
				header = append(header, inert(f.name))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	out := csv.NewWriter(w)
	if err := out.Write(header); err != nil {
		return err
	}
	err = x.completed(ctx, func(line object) error {
		cells := make([]string, len(header))
		for _, f := range line {
			cell, err := cellOf(f.value)
			if err != nil {
				return err
			}
			cells[at[f.name]] = cell
		}
		return out.Write(cells)
	})
	out.Flush()
	if err != nil {
		return err
	}
	return out.Error()
}

func cellOf(value json.RawMessage) (string, error) {
	var text string
	if string(value) == "null" {
		return "", nil
	}
	if json.Unmarshal(value, &text) == nil {
		return inert(text), nil
	}
	var out bytes.Buffer
	err := dumpPython(&out, value)
	return harmless.Text(out.String()), err
}

// log writes what failed, and at the end how long the whole took.
func (x *experiment) log(ctx context.Context, w io.Writer) error {
	var first, last time.Time
	prompts := 0
	say := func(at time.Time, format string, args ...any) error {
		words := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
		_, err := fmt.Fprintf(w, "%s: %s\n", at.Local().Format("02-01-2006, 15:04"), words)
		return err
	}
	for row, err := range x.from.PromptRows(ctx, x.of.ID) {
		if err != nil {
			return err
		}
		if prompts++; first.IsZero() || row.Started.Before(first) {
			first = row.Started
		}
		last = row.Ended
		if row.State != eval.StateFailed.String() {
			continue
		}
		if err := say(row.Ended, "Error (i=%d, id=%s): %s", row.Index+1, row.Name, failureText(row.Run)); err != nil {
			return err
		}
	}
	if prompts == 0 {
		return nil
	}
	took := last.Sub(first).Seconds()
	words := "Completed experiment"
	if prompts < len(x.of.Plan.Prompts.List) {
		words = fmt.Sprintf("So far %d of %d prompts of experiment", prompts, len(x.of.Plan.Prompts.List))
	}
	return say(last, "%s: %s! Experiment processing time: %.3f seconds, Average time per query: %.3f seconds",
		words, x.of.Plan.Name, took, took/float64(prompts))
}
