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

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/prompto"
	"github.com/evalfleet/evalfleet/internal/table"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
)

// experiment writes an experiment's files in prompto's format, so that programs that read prompto's
// files can read these: its lines with their answers, its input and a log.
type experiment struct {
	place Place
	of    Evaluation
	from  Reader
}

// write writes all files. completed is the path of the lines with their answers, and all are the
// paths of the others.
func (x *experiment) write(ctx context.Context) (completed string, all []string, err error) {
	folder, below := x.place.Dir, ""
	if x.place.Data != "" {
		folder, below = x.place.Data, filepath.FromSlash(prompto.OutputFolder(x.of.Plan.Name))
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
	if _, err := os.Stat(x.place.Input); err != nil { // it was deleted since it was read
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
		{prompto.InputFile, ending, true, x.input},
		{prompto.LogFile, ".txt", true, x.log},
		{prompto.CompletedFile, ".csv", x.place.CSV, x.csv},
		{prompto.CompletedFile, ".jsonl", true, x.lines},
	}

	for _, f := range files {
		if !f.wanted {
			continue
		}
		path := filepath.Join(below, prompto.FileName(x.of.Created.Local(), f.what, x.of.Plan.Name, f.ending))
		if err := WriteFile(root, path, func(w io.Writer) error { return f.write(ctx, w) }); err != nil {
			return "", all, err
		}
		all = append(all, filepath.Join(folder, path))
	}

	last := len(all) - 1
	return all[last], all[:last], nil
}

// input copies the experiment's file, or writes its lines if this machine does not have the file.
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

// text returns a row's line as written in the experiment's file.
func (x *experiment) text(ctx context.Context, row int) (string, error) {
	return x.from.Text(ctx, x.of.Plan.Prompts.Rows[row].Hash)
}

// completed calls use for the line of each prompt that has ended, with its answer, in the order in
// which they ended.
func (x *experiment) completed(ctx context.Context, use func(prompto.Line) error) error {
	for row, err := range x.from.PromptRows(ctx, x.of.ID) {
		if err != nil {
			return err
		}
		text, err := x.text(ctx, x.of.Plan.Prompts.List[row.Index].Row)
		if err != nil {
			return err
		}
		line, err := prompto.ParseLine(text)
		if err != nil {
			return fmt.Errorf("line of prompt %s: %w", row.Name, err)
		}
		outcome := outcomeOf(row)
		if outcome.Ratings, err = x.ratings(ctx, row, outcome.Rated(line)); err != nil {
			return err
		}
		if err := use(prompto.Complete(line, outcome)); err != nil {
			return err
		}
	}
	return nil
}

func outcomeOf(row PromptRow) prompto.Outcome {
	sent := row.Sent
	if sent.IsZero() {
		sent = row.Ended
	}
	provider, _, _ := strings.Cut(row.Model, ":")
	return prompto.Outcome{
		Provider: provider, Sent: sent.Local(), Answer: row.Answer, Answers: row.Answers, Attempts: row.Attempts,
		Failed: row.State == eval.StateFailed.String(), Class: string(row.Class), Error: row.Error,
	}
}

// ratings returns the safety ratings of the last n calls that answered a prompt. It returns nil if
// not all are known, or another model answered.
func (x *experiment) ratings(ctx context.Context, row PromptRow, n int) ([]prompto.Ratings, error) {
	if n == 0 || row.State != eval.StateSucceeded.String() || row.AnsweredBy != row.Model {
		return nil, nil
	}
	var all []prompto.Ratings
	for call, err := range x.from.Calls(ctx, row.RunID(x.of.ID)) {
		if err != nil {
			return nil, err
		}
		if call.Class == "" && call.Model == row.AnsweredBy {
			all = append(all, ratingsOf(call))
		}
	}
	if len(all) < n {
		return nil, nil
	}
	return all[len(all)-n:], nil
}

func ratingsOf(call record.Call) prompto.Ratings {
	ratings := prompto.Ratings{Finish: call.Finish}
	if call.Grounding != nil {
		for _, r := range call.Grounding.Safety {
			ratings.All = append(ratings.All, prompto.Rating{Category: r.Category, Probability: r.Probability, Blocked: r.Blocked})
		}
	}
	return ratings
}

func (x *experiment) lines(ctx context.Context, w io.Writer) error {
	var out bytes.Buffer
	return x.completed(ctx, func(line prompto.Line) error {
		out.Reset()
		if err := line.Python(&out); err != nil {
			return err
		}
		out.WriteByte('\n')
		_, err := w.Write(out.Bytes())
		return err
	})
}

// csv writes the lines as a table whose columns are the keys of all lines, in order of first
// appearance. Texts are inert; lists and objects are JSON.
func (x *experiment) csv(ctx context.Context, w io.Writer) error {
	var header []string
	at := map[string]int{}
	err := x.completed(ctx, func(line prompto.Line) error {
		for _, f := range line {
			if _, known := at[f.Name]; !known {
				at[f.Name] = len(header)
				header = append(header, table.Inert(f.Name))
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
	err = x.completed(ctx, func(line prompto.Line) error {
		cells := make([]string, len(header))
		for _, f := range line {
			cell, err := cellOf(f.Value)
			if err != nil {
				return err
			}
			cells[at[f.Name]] = cell
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
		return table.Inert(text), nil
	}
	var out bytes.Buffer
	err := prompto.AppendPython(&out, value)
	return harmless.Text(out.String()), err
}

// log writes which prompts failed, and at the end how long the whole experiment took.
func (x *experiment) log(ctx context.Context, w io.Writer) error {
	var first, last time.Time
	prompts := 0
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
		if _, err := io.WriteString(w, outcomeOf(row).LogFailed(row.Ended.Local(), row.Index, row.Name)); err != nil {
			return err
		}
	}
	if prompts == 0 {
		return nil
	}
	_, err := io.WriteString(w, prompto.LogEnded(last.Local(), x.of.Plan.Name, prompts, len(x.of.Plan.Prompts.List), last.Sub(first)))
	return err
}
