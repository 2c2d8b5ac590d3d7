package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/evalfleet/evalfleet/config"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/results"
)

// resumeFile, in an output folder, contains the data that `run` needs to resume there and that
// the results store does not have. It contains no key and no password.
const resumeFile = "resume.json"

// resumeVersion is that of the file's form.
const resumeVersion = 1

// resumption is the content of the file.
type resumption struct {
	Version    int                      `json:"v"`
	Evaluation eval.ID                  `json:"evaluation"`
	Providers  map[string]catalog.Entry `json:"providers"` // of the judges
	Lease      time.Duration            `json:"lease"`
	Slots      int                      `json:"slots"`
	Grace      time.Duration            `json:"grace,omitempty"`
	FailOn     failOn                   `json:"fail_on"`
	Sink       string                   `json:"sink,omitempty"` // its URL without a password, or its absolute path; empty: in the folder
	// Where files are written besides the output folder, as in results.Place; absolute
	// paths, empty where nothing was said.
	Out   string `json:"out,omitempty"`
	Data  string `json:"data,omitempty"`
	Input string `json:"input,omitempty"`
	CSV   bool   `json:"csv,omitempty"`
	Redis bool   `json:"redis"` // one was named
	// Outs are as in results.Place.
	Outs map[string]string `json:"outs,omitempty"`
	Seal string            `json:"seal,omitempty"` // of sealer, over everything else
}

// resumption is the data needed to resume the job.
func (j *job) resumption() (resumption, error) {
	e := j.submission.Evaluation
	r := resumption{
		Version: resumeVersion, Evaluation: e.ID(), Providers: map[string]catalog.Entry{},
		Lease: j.submission.Lease, Slots: j.how.slots, Grace: j.how.grace, FailOn: j.failOn, Redis: j.redis.URL != "",
		Out: j.place.Out, Data: j.place.Data, Input: j.place.Input, CSV: j.place.CSV, Outs: j.place.Outs,
	}
	for _, judge := range j.submission.Settings.Everyone(e) {
		r.Providers[judge.Provider] = j.submission.Providers[judge.Provider]
	}
	var err error
	r.Sink, err = savedSink(j.sinkURL)
	return r, err
}

// savedSink is a results store's URL that is valid from any folder, without a password.
func savedSink(url string) (string, error) {
	path, isFile := results.File(url)
	if url == "" || !isFile {
		return results.Public(url)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("sink %s: %w", url, err)
	}
	return path, nil
}

// saveResumption writes the file in one step.
func (j *job) saveResumption() error {
	r, err := j.resumption()
	if err != nil {
		return err
	}
	if err := errors.Join(j.own.noteSink(j.sinkURL), j.own.seal(&r)); err != nil {
		j.log.Debug().Err(err).Msg("resume.json is not sealed: resuming will ask about addresses")
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", resumeFile, err)
	}
	path := filepath.Join(j.dir, resumeFile)
	temporary := path + ".new" // the folder is ours alone
	if err := os.WriteFile(temporary, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// readResumption reads the file of a folder.
func readResumption(dir string) (resumption, error) {
	var r resumption
	if err := checkFiles(dir); err != nil {
		return r, err
	}
	path := filepath.Join(dir, resumeFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, usageError("no `evalfleet run` has started in %s: it has no %s; start one with `evalfleet run FILE --out-dir %s`", dir, resumeFile, dir)
	}
	if err != nil {
		return r, usageError("read %s: %w", path, err)
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, usageError("%s: %w; repeat the `evalfleet run FILE` that wrote it", path, err)
	}
	if r.Version != resumeVersion {
		return r, usageError("%s has version %d, this program knows %d; repeat the `evalfleet run FILE` that wrote it", path, r.Version, resumeVersion)
	}
	return r, nil
}

// place is where the files of the run in dir are written.
func (r resumption) place(dir string) results.Place {
	return results.Place{Dir: dir, Out: r.Out, Outs: r.Outs, Data: r.Data, Input: r.Input, CSV: r.CSV}
}

// submission rebuilds the submission from the results store: the evaluation file and its
// documents may have moved, or changed.
func (r resumption) submission(ctx context.Context, sink results.Reader) (*config.Submission, error) {
	stored, err := sink.Evaluation(ctx, r.Evaluation)
	if errors.Is(err, results.ErrNoEvaluation) {
		return nil, usageError("%w; repeat the `evalfleet run FILE` that began it", err)
	}
	if err != nil {
		return nil, sinkError(err)
	}
	if stored.Plan.ID() != r.Evaluation {
		return nil, usageError("the evaluation in the results store is not %s: its plan was changed; repeat the `evalfleet run FILE` that began it", r.Evaluation)
	}
	texts := map[string]string{}
	for _, document := range stored.Plan.Everything() {
		if texts[document.Hash], err = sink.Text(ctx, document.Hash); err != nil {
			return nil, sinkError(err)
		}
	}
	if votes := stored.Settings.Votes; votes != "" {
		if texts[votes], err = sink.Text(ctx, votes); err != nil {
			return nil, sinkError(err)
		}
	}
	return &config.Submission{
		Evaluation: stored.Plan, Texts: texts, Settings: stored.Settings,
		Providers: r.Providers, Lease: r.Lease,
	}, nil
}
