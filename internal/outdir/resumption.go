package outdir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/providers/catalog"
)

// ResumeFile is a file in an output folder. It contains the data that `run` needs to resume there
// and that the results store does not have. It contains no key and no password.
const ResumeFile = "resume.json"

// resumeVersion is the version of the file's format.
const resumeVersion = 1

// Resumption is the content of the file.
type Resumption struct {
	Version    int                      `json:"v"` // Seal and Save set it
	Evaluation eval.ID                  `json:"evaluation"`
	Providers  map[string]catalog.Entry `json:"providers"` // of the judges
	Lease      time.Duration            `json:"lease"`
	Slots      int                      `json:"slots"`
	Grace      time.Duration            `json:"grace,omitempty"`
	FailOn     string                   `json:"fail_on"`
	ResultsURL string                   `json:"sink,omitempty"` // its URL without a password, or its absolute path; empty: in the folder
	// Out, Data and Input say where files outside the output folder are, as in results.Place. They
	// are absolute paths, empty if not given.
	Out   string `json:"out,omitempty"`
	Data  string `json:"data,omitempty"`
	Input string `json:"input,omitempty"`
	CSV   bool   `json:"csv,omitempty"`
	Redis bool   `json:"redis"` // the command named one
	// NoReuse is like config.Submission.NoReuse.
	NoReuse bool `json:"no_reuse,omitempty"`
	// Judged means that judges compare the answers afterwards, in an evaluation whose output folder contains this one.
	Judged bool `json:"judged,omitempty"`
	// Outs is like results.Place.Outs.
	Outs map[string]string `json:"outs,omitempty"`
	Seal string            `json:"seal,omitempty"` // by an Owner, over everything else
}

// SavedURL returns a results store's URL without a password, in a form that is valid in any folder.
func SavedURL(url string) (string, error) {
	path, isFile := results.File(url)
	if url == "" || !isFile {
		return results.Public(url)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("results store %s: %w", url, err)
	}
	return path, nil
}

// Save writes the file to a folder in one step.
func (r Resumption) Save(dir string) error {
	r.Version = resumeVersion
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", ResumeFile, err)
	}
	path := filepath.Join(dir, ResumeFile)
	if most := largest[ResumeFile]; int64(len(raw)) >= most {
		return failure.Usagef(
			"%s would have %d bytes, and the maximum is %d: omit `out` from some runs, or use shorter paths", path, len(raw)+1,
			most,
		)
	}
	temporary := path + ".new" // the folder is locked, so no other process writes it
	if err := os.WriteFile(temporary, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// NoRunError means that no `evalfleet run` has started in a folder.
type NoRunError struct{ Dir string }

func (e *NoRunError) Error() string {
	return fmt.Sprintf("no `evalfleet run` has started in %s: it has no %s", e.Dir, ResumeFile)
}

// ReadResumption reads the file from a folder. If the file does not exist, the error is a
// *NoRunError.
func ReadResumption(dir string) (Resumption, error) {
	var r Resumption
	if err := Check(dir); err != nil {
		return r, err
	}
	path := filepath.Join(dir, ResumeFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, failure.With(failure.Usage, &NoRunError{dir})
	}
	if err != nil {
		return r, failure.Usagef("read %s: %w", path, err)
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, failure.Usagef("%s: %w; repeat the `evalfleet run FILE` that wrote it", path, err)
	}
	if r.Version != resumeVersion {
		return r, failure.Usagef(
			"%s has version %d, this program knows %d; repeat the `evalfleet run FILE` that wrote it", path, r.Version,
			resumeVersion,
		)
	}
	return r, nil
}

// Place returns the place where the run in dir writes files.
func (r Resumption) Place(dir string) results.Place {
	return results.Place{Dir: dir, Out: r.Out, Outs: r.Outs, Data: r.Data, Input: r.Input, CSV: r.CSV}
}

// Submission rebuilds the submission from the results store, because the evaluation file and its
// documents may have moved or changed.
func (r Resumption) Submission(ctx context.Context, reader results.Reader) (*config.Submission, error) {
	stored, err := reader.Evaluation(ctx, r.Evaluation)
	if errors.Is(err, results.ErrNoEvaluation) {
		return nil, failure.Usagef("%w; repeat the `evalfleet run FILE` that started it", err)
	}
	if err != nil {
		return nil, StoreError(err)
	}
	if stored.Plan.ID() != r.Evaluation {
		return nil, failure.Usagef(
			"the evaluation in the results store is not %s: its plan was changed; repeat the `evalfleet run FILE` that started it",
			r.Evaluation,
		)
	}
	texts := map[string]string{}
	for _, document := range stored.Plan.Everything() {
		for _, hash := range document.Hashes() {
			if texts[hash], err = reader.Text(ctx, hash); err != nil {
				return nil, StoreError(err)
			}
		}
	}

	if votes := stored.Settings.Votes; votes != "" {
		if texts[votes], err = reader.Text(ctx, votes); err != nil {
			return nil, StoreError(err)
		}
	}

	return &config.Submission{
		Evaluation: stored.Plan, Texts: texts, Settings: stored.Settings,
		Providers: r.Providers, Lease: r.Lease, NoReuse: r.NoReuse,
	}, nil
}
