package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/upload"
)

// mostUploads is how many submissions are received and checked at the same time; further
// ones get status 429.
const mostUploads = 2

// Submit stores an evaluation whose files are in a folder, which is removed when it
// returns. Its error is an *InvalidError if the files are wrong, and ErrConflict if the
// evaluation cannot be submitted now.
type Submit func(context.Context, Submission) (Receipt, error)

// Submission is a received evaluation, with the options from the query.
type Submission struct {
	Folder string // holds the received files
	File   string // evaluation file, or folder of documents, relative to Folder

	Judges          []string // for a folder: PROVIDER:MODEL
	Again           string   // starts a fresh evaluation under this name
	Limit           int      // first runs of the plan; 0: all
	MaxConcurrency  *int     // calls of the evaluation in flight; nil: as the file says
	JSON            string   // false, true or auto; empty: as the file says
	Provider, Model string   // of listed runs that name none
	Batch           bool     // run listed runs although the file disables them
	RetryFailed     bool     // also retry runs that failed before
}

// Receipt is the answer to a submission.
type Receipt struct {
	ID      eval.ID  `json:"evaluation"`
	Name    string   `json:"name"`
	Created bool     `json:"created"` // false: it existed, and was resumed
	Kept    bool     `json:"kept"`    // it is active with other settings, which stay in force
	Runs    int      `json:"runs"`
	Queues  []string `json:"queues"`
	// Warnings are about the evaluation's files, and about judges that no worker can call.
	Warnings []string `json:"warnings"`
}

// Problem is one thing wrong in an evaluation's files.
type Problem struct {
	File    string `json:"file,omitempty"` // relative to the upload
	Line    int    `json:"line,omitempty"` // from 1
	Column  int    `json:"column,omitempty"`
	Path    string `json:"path,omitempty"` // key, such as judges[1].model
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
}

// InvalidError is everything wrong in an evaluation's files.
type InvalidError struct {
	Problems []Problem
	Text     string // all of them, one per line
}

func (e *InvalidError) Error() string { return e.Text }

// refusal is the answer to a submission that is not accepted.
type refusal struct {
	Error    string    `json:"error"`
	Problems []Problem `json:"problems,omitempty"`
}

// ErrConflict means that an evaluation of this identity exists and was cancelled.
var ErrConflict = errors.New("conflict")

// errForbidden means that the account, or the server, may not do this.
var errForbidden = errors.New("forbidden")

// submit receives an evaluation: the file and everything it names as a tar archive, with
// or without gzip, or as JSON. Nothing is stored before all of it has arrived and been
// checked. The same evaluation may be submitted again: its identity is that of its
// content.
func (s *Server) submit(w http.ResponseWriter, r *http.Request) {
	receipt, err := s.received(w, r)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if err != nil {
		status := submitStatus(err)
		if status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(status)
		answer := refusal{Error: err.Error()}
		var invalid *InvalidError
		if errors.As(err, &invalid) {
			answer.Problems = invalid.Problems
		}
		_ = json.NewEncoder(w).Encode(answer)
		return
	}
	w.Header().Set("Location", "/api/evaluations/"+url.PathEscape(string(receipt.ID)))
	if receipt.Created {
		w.WriteHeader(http.StatusCreated)
	}
	_ = json.NewEncoder(w).Encode(receipt)
}

// errUploads means that mostUploads submissions are under way.
var errUploads = errors.New("other submissions are being received; try again")

func submitStatus(err error) int {
	var invalid *InvalidError
	switch {
	case errors.As(err, &invalid):
		return http.StatusUnprocessableEntity
	case errors.Is(err, errForbidden):
		return http.StatusForbidden
	case errors.Is(err, ErrConflict):
		return http.StatusConflict
	case errors.Is(err, errUploads):
		return http.StatusTooManyRequests
	case errors.Is(err, upload.ErrTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, upload.ErrType):
		return http.StatusUnsupportedMediaType
	}
	return statusOf(err)
}

func (s *Server) received(w http.ResponseWriter, r *http.Request) (Receipt, error) {
	if s.cfg.Submit == nil || !s.mayAct(r) {
		return Receipt{}, fmt.Errorf("%w: submissions need a controller with --allow-actions, and an account that is not a viewer", errForbidden)
	}
	submission, err := submissionOf(r.URL.Query())
	if err != nil {
		return Receipt{}, err
	}
	select {
	case s.uploads <- struct{}{}:
		defer func() { <-s.uploads }()
	default:
		return Receipt{}, errUploads
	}
	if submission.Folder, err = os.MkdirTemp("", "evalfleet-upload-"); err != nil {
		return Receipt{}, err
	}
	defer os.RemoveAll(submission.Folder)
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return Receipt{}, upload.ErrType
	}
	// JSON and tar add to the size of the files.
	body := http.MaxBytesReader(w, r.Body, 6*s.cfg.MaxUpload+1<<20)
	if err := upload.Unpack(body, mediaType, submission.Folder, s.cfg.MaxUpload); err != nil {
		// A sender that is cut off while it sends does not see the answer.
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, s.cfg.MaxUpload))
		var long *http.MaxBytesError
		switch {
		case errors.As(err, &long), errors.Is(err, upload.ErrTooLarge):
			return Receipt{}, fmt.Errorf("%w: at most %d MiB are accepted (--max-upload-mib of the controller)", upload.ErrTooLarge, s.cfg.MaxUpload>>20)
		case errors.Is(err, upload.ErrType), r.Context().Err() != nil:
			return Receipt{}, err
		}
		return Receipt{}, fmt.Errorf("%w: %w", errBadRequest, err)
	}
	// From here on, the sender's leaving changes nothing.
	receipt, err := s.cfg.Submit(context.WithoutCancel(r.Context()), submission)
	who, _ := r.Context().Value(user{}).(string)
	s.cfg.Log.Info().Str("evaluation", string(receipt.ID)).Str("action", "submit").Str("user", who).AnErr("err", err).Msg("requested on the pages")
	return receipt, err
}

// submissionOf reads a query; unknown parameters are errors.
func submissionOf(query url.Values) (s Submission, err error) {
	numbers, switches := map[string]*int{"limit": &s.Limit}, map[string]*bool{"batch": &s.Batch, "retry_failed": &s.RetryFailed}
	texts := map[string]*string{"file": &s.File, "again": &s.Again, "json_mode": &s.JSON, "provider": &s.Provider, "model": &s.Model}
	if query.Has("max_concurrency") {
		s.MaxConcurrency = new(int)
		numbers["max_concurrency"] = s.MaxConcurrency
	}
	known := slices.Concat(slices.Collect(maps.Keys(numbers)), slices.Collect(maps.Keys(switches)), slices.Collect(maps.Keys(texts)), []string{"judge"})
	for name, values := range query {
		value := values[0]
		switch {
		case name == "judge":
			s.Judges = values
			continue
		case len(values) > 1:
			return s, fmt.Errorf("%w: %s is set twice", errBadRequest, name)
		case texts[name] != nil:
			*texts[name] = value
		case numbers[name] != nil:
			if *numbers[name], err = strconv.Atoi(value); err != nil || *numbers[name] < 0 {
				return s, fmt.Errorf("%w: %s=%s: want a number of 0 or more", errBadRequest, name, value)
			}
		case switches[name] != nil:
			if *switches[name], err = strconv.ParseBool(value); err != nil {
				return s, fmt.Errorf("%w: %s=%s: want true or false", errBadRequest, name, value)
			}
		default:
			slices.Sort(known)
			return s, fmt.Errorf("%w: unknown parameter %q; want %s", errBadRequest, name, strings.Join(known, ", "))
		}
	}
	if s.File = path.Clean(s.File); !fs.ValidPath(s.File) || s.File == "." || strings.Contains(s.File, "\\") {
		return s, fmt.Errorf("%w: file=%s: want the path of the evaluation file in the archive", errBadRequest, query.Get("file"))
	}
	return s, nil
}
