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
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/web/upload"
)

const (
	// mostUploads is how many submissions are received at the same time, and uploadsEach how many of them from one
	// user; further ones get status 429.
	mostUploads = 8
	uploadsEach = 2
	// mostSubmits is how many received submissions are checked and stored at the same time,
	// which takes more memory than receiving them. Others wait.
	mostSubmits = 2
	// paceBytes of an upload must arrive within each paceTime until its end.
	paceBytes = 256 << 10
	paceTime  = 30 * time.Second
)

// Submit stores an evaluation whose files are in a folder, which is removed when it
// returns. Its error is an *InvalidError if the files are wrong, and ErrConflict if the
// evaluation cannot be submitted now.
type Submit func(context.Context, Received) (Receipt, error)

// Received holds the files of an evaluation that was uploaded, with the options from the query.
type Received struct {
	Folder string // holds the received files
	File   string // evaluation file, folder of documents or file of answers, relative to Folder
	// More are all files of answers, if there are several. File is the first of them.
	More []string

	Judges          []string // for a folder: PROVIDER:MODEL
	Again           string   // starts a fresh evaluation under this name
	Limit           int      // first runs of the plan; 0: all
	MaxConcurrency  *int     // calls of the evaluation in flight; nil: as the file says
	JSON            string   // false, true or auto; empty: as the file says
	Provider, Model string   // of listed runs that name none
	Batch           bool     // run listed runs even if the file disables them
	RetryFailed     bool     // also retry runs that failed before
}

// Receipt is the answer to a submission.
type Receipt struct {
	ID      eval.ID  `json:"evaluation"`
	Name    string   `json:"name"`
	Created bool     `json:"created"` // false: it existed, and was resumed
	Done    bool     `json:"done"`    // it existed, and has ended
	Kept    bool     `json:"kept"`    // it is active with other settings, which remain in force
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

// errForbidden means that the user, or the server, may not do this.
var errForbidden = errors.New("forbidden")

// submit receives an evaluation: the file and everything it names, as a tar archive with or without gzip, or as JSON.
// Nothing is stored before all of it has arrived and been checked. The same evaluation may be submitted again: its
// content determines its identity.
func (s *Server) submit(w http.ResponseWriter, r *http.Request) {
	receipt, err := s.received(w, r)
	if err != nil {
		// A sender whose connection is closed while it sends does not see the answer.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.pace))
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, s.cfg.MaxUpload))
	}

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
	case errors.Is(err, upload.ErrStorage):
		return http.StatusInsufficientStorage
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout
	}
	return statusOf(err)
}

func (s *Server) received(w http.ResponseWriter, r *http.Request) (receipt Receipt, err error) {
	if s.cfg.Submit == nil || !s.mayAct(r) {
		return Receipt{}, fmt.Errorf("%w: submissions need a controller with --allow-actions, and an account that is not a viewer", errForbidden)
	}
	submission, err := submissionOf(r.URL.Query())
	if err != nil {
		return Receipt{}, err
	}
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return Receipt{}, upload.ErrType
	}
	leave, ok := s.uploads.enter(userOf(r))
	if !ok {
		return Receipt{}, errUploads
	}
	defer leave()

	folder, err := upload.NewFolder()
	if err != nil {
		s.cfg.Log.Error().Err(err).Msg("cannot receive a submission")
		return Receipt{}, err
	}
	defer func() {
		if err := folder.Remove(); err != nil {
			s.cfg.Log.Error().Err(err).Msg("an upload remains in the temporary folder until the next start")
		}
	}()
	submission.Folder = folder.Path
	if err := s.unpack(w, r, mediaType, folder.Path); err != nil {
		return Receipt{}, err
	}

	select {
	case s.submits <- struct{}{}:
		defer func() { <-s.submits }()
	case <-r.Context().Done():
		return Receipt{}, r.Context().Err()
	}
	// From here on, the submission continues even if the sender disconnects.
	receipt, err = s.cfg.Submit(context.WithoutCancel(r.Context()), submission)
	who, _ := r.Context().Value(user{}).(string)
	s.cfg.Log.Info().Str("evaluation", string(receipt.ID)).Str("action", "submit").Str("user", who).AnErr("err", err).
		Msg("requested on the pages")
	for i, warning := range receipt.Warnings {
		receipt.Warnings[i] = within(folder.Path, warning)
	}
	return receipt, hidden(folder.Path, err)
}

// unpack receives the files of a submission.
func (s *Server) unpack(w http.ResponseWriter, r *http.Request, mediaType, folder string) error {
	// JSON and tar add to the size of the files.
	wire := http.NewResponseController(w)
	body := http.MaxBytesReader(w, &pacedBody{ReadCloser: r.Body, wire: wire, time: s.pace}, 6*s.cfg.MaxUpload+1<<20)
	err := upload.Unpack(body, mediaType, folder, s.cfg.MaxUpload)
	_ = wire.SetReadDeadline(time.Time{}) // it would end the request while the evaluation is stored
	var long *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &long):
		return s.tooLarge(upload.ErrTooLarge)
	case errors.Is(err, upload.ErrTooLarge):
		return s.tooLarge(err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the upload is too slow: want %d KiB in %s: %w", paceBytes>>10, s.pace, os.ErrDeadlineExceeded)
	case errors.Is(err, upload.ErrStorage):
		s.cfg.Log.Error().Err(err).Msg("cannot receive a submission")
		return err
	case errors.Is(err, upload.ErrType), r.Context().Err() != nil:
		return err
	}
	return fmt.Errorf("%w: %w", errBadRequest, err)
}

func (s *Server) tooLarge(err error) error {
	return fmt.Errorf("%w: at most %d MiB are accepted (--max-upload-mib of the controller)", err, s.cfg.MaxUpload>>20)
}

// pacedBody is a request's body of which paceBytes must arrive in each period. A deadline that every byte renewed would
// let a sender keep its place for days.
type pacedBody struct {
	io.ReadCloser
	wire *http.ResponseController
	time time.Duration
	left int // bytes until the deadline is renewed
}

// Read implements io.Reader. It renews the connection's read deadline after every paceBytes.
func (b *pacedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.left = paceBytes
		// Only the response recorders of tests have no deadlines.
		if err := b.wire.SetReadDeadline(time.Now().Add(b.time)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return 0, err
		}
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= n
	return n, err
}

// within removes a folder of this machine from a text: submitters know only the files in it.
func within(folder, text string) string {
	for _, form := range []string{folder, strings.Trim(strconv.Quote(folder), `"`)} {
		text = strings.ReplaceAll(text, form+string(os.PathSeparator), "")
		text = strings.ReplaceAll(text, form, ".")
	}
	return text
}

// hidden returns err with a folder of this machine removed from its text.
func hidden(folder string, err error) error {
	if err == nil {
		return nil
	}
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		return &hiddenError{within(folder, err.Error()), err}
	}
	shown := &InvalidError{Text: within(folder, invalid.Text)}
	for _, p := range invalid.Problems {
		p.File, p.Path = within(folder, p.File), within(folder, p.Path)
		p.Message, p.Fix = within(folder, p.Message), within(folder, p.Fix)
		shown.Problems = append(shown.Problems, p)
	}
	return shown
}

// hiddenError is an error with another text.
type hiddenError struct {
	text string
	err  error
}

func (e *hiddenError) Error() string { return e.text }
func (e *hiddenError) Unwrap() error { return e.err }

// submissionOf parses a query; unknown parameters are errors.
func submissionOf(query url.Values) (s Received, err error) {
	numbers, switches := map[string]*int{"limit": &s.Limit}, map[string]*bool{"batch": &s.Batch, "retry_failed": &s.RetryFailed}
	texts := map[string]*string{"again": &s.Again, "json_mode": &s.JSON, "provider": &s.Provider, "model": &s.Model}
	if query.Has("max_concurrency") {
		s.MaxConcurrency = new(int)
		numbers["max_concurrency"] = s.MaxConcurrency
	}

	known := slices.Concat(
		slices.Collect(maps.Keys(numbers)), slices.Collect(maps.Keys(switches)), slices.Collect(maps.Keys(texts)),
		[]string{"file", "judge"},
	)
	for name, values := range query {
		value := values[0]
		switch {
		case name == "judge":
			s.Judges = values
		case name == "file": // below
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

	files := slices.Clone(query["file"])
	for i, name := range files {
		if files[i] = path.Clean(name); !fs.ValidPath(files[i]) || files[i] == "." || strings.Contains(name, "\\") {
			return s, fmt.Errorf("%w: file=%s: want the path of the evaluation file in the archive", errBadRequest, name)
		}
	}
	switch len(files) {
	case 0:
		return s, fmt.Errorf("%w: file= is missing: want the path of the evaluation file in the archive", errBadRequest)
	case 1:
		s.File = files[0]
	default:
		s.File, s.More = files[0], files
	}
	return s, nil
}
