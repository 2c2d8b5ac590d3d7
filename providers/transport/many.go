package transport

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
)

// envelope is how many bytes may be around an answer in a body that has many.
const envelope = 64 << 10

// errPage is the cause of the error for a web page where many answers were expected.
var errPage = errors.New("a web page instead of answers")

// BatchBody returns the JSON of the body that creates a batch. Its error, of class BadRequest, says if it is longer than
// the vendor accepts.
func BatchBody(vendor string, most int, body any) ([]byte, error) {
	raw, err := json.Marshal(body)
	if err == nil && len(raw) > most {
		err = fmt.Errorf("it has %d bytes; %s accepts %d", len(raw), vendor, most)
	}
	if err != nil {
		return nil, &providers.Error{Class: providers.BadRequest, Message: "the batch cannot be sent: " + err.Error(), Err: err}
	}
	return raw, nil
}

// Part returns one of the answers in a body that has many. status and requestID are its own; 0 and empty: not told.
func (a *Answer) Part(status int, requestID string, body []byte) *Answer {
	return &Answer{
		Body: body, RequestID: cmp.Or(a.struck.strike(requestID), a.RequestID), status: cmp.Or(status, a.status), most: a.most, struck: a.struck,
	}
}

// InBatch reads a part that answers one request of a batch, by the dialect's reader.
func (a *Answer) InBatch(read func(*Answer) (*providers.Result, error)) (*providers.Result, error) {
	if a.status >= 400 {
		return nil, a.Failure()
	}
	if err := a.Fits(len(a.Body)); err != nil {
		return nil, err
	}
	result, err := read(a)
	if err != nil {
		var failed *providers.Error
		if errors.As(err, &failed) && failed.Used.Reported {
			failed.Used.Tier = providers.TierBatch
		}
		return nil, err
	}
	result.Usage.Tier = providers.TierBatch
	result.JSON = JSONText(&providers.Request{Schema: &providers.Schema{}}, result.Text)
	return result, nil
}

// TextIn returns the text of a field of an object, or of an object in it. The object may be cut off after the field. Empty:
// there is no such text.
func TextIn(object []byte, field ...string) (text string) {
	whole := errors.New("found")
	a := &Answer{most: len(object)}
	_ = a.Walk(context.Background(), bytes.NewReader(object), func(path string, token json.Token) error {
		if path != strings.Join(field, ".") {
			return nil
		}
		text, _ = token.(string)
		return whole
	}, nil) // what is missing is not found
	return text
}

// Sorter passes the answers of a batch on by the requests that they name, and counts those that name none.
type Sorter struct {
	// Each gets an answer, as of providers.Batches.
	Each func(request string, result *providers.Result, err error) error

	stopped error // of Each
	strays  int
	first   string // what is wrong with the first of them
}

// Take passes an answer to Each. Without a request, err says what is wrong with the answer.
func (s *Sorter) Take(request string, result *providers.Result, err error) error {
	if request != "" {
		s.stopped = s.Each(request, result, err)
		return s.stopped
	}
	if s.strays++; s.strays == 1 {
		s.first = err.Error()
	}
	return nil
}

// Failed returns the error of a body that was read with Take: that of Each as it is, or else err.
func (s *Sorter) Failed(err error) error {
	if s.stopped != nil {
		return s.stopped
	}
	return AboutObject(err)
}

// Strays returns the error of class Malformed for the answers that name no request; nil: there were none.
func (s *Sorter) Strays(answer *Answer) error {
	if s.strays == 0 {
		return nil
	}
	return Unbilled(answer.Fail(providers.Malformed, fmt.Sprintf("%d answers of the batch name no request; the first: %s", s.strays, s.first)))
}

// Lines calls each with every line of the body that is not empty, without the secrets. One is in memory at a time. If a
// line is longer than an answer may be, whole is false, and the line is its beginning. A body that ends within a line was
// interrupted. Lines returns the error of each as it is.
func (a *Answer) Lines(ctx context.Context, body io.Reader, each func(line []byte, whole bool) error) error {
	s := a.scan(ctx, body)
	for first := true; ; first = false {
		end, err := s.readLine()
		line := bytes.TrimSpace(s.kept)
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return s.failed(err)
		case first && bytes.HasPrefix(line, []byte("<")):
			return a.Malformed(errPage)
		case !end && len(line) > 0 && (s.over || !json.Valid(line)):
			return a.Interrupted(ctx, io.ErrUnexpectedEOF)
		}
		if len(line) > 0 {
			if err := each(a.struck.strikeBytes(line), !s.over); err != nil {
				return err
			}
		}
		if !end {
			return nil
		}
	}
}

// Walk reads one JSON value and calls visit with the path of each object's and array's beginning and end and of each
// other value, such as "items.name": arrays have no step of their own. No value is in memory longer than visit. It returns
// the error of visit as it is; with ErrElements, it passes the elements of the array that has just begun to each, as
// Elements does, and reads no further.
func (a *Answer) Walk(
	ctx context.Context, body io.Reader, visit func(path string, token json.Token) error, each func(element []byte, whole bool) error,
) error {
	in := &patient{ctx: ctx, in: body, most: cmp.Or(a.most, providers.DefaultAnswer) + envelope}
	decoder := json.NewDecoder(in)
	var path []string     // names of fields
	var open []json.Delim // of the objects and arrays around the next token
	named := false        // the value of a field is next
	for {
		in.since = 0
		token, err := decoder.Token()
		if err != nil {
			return a.brokenOff(ctx, in, err)
		}
		inObject := len(open) > 0 && open[len(open)-1] == '{'
		delimiter, _ := token.(json.Delim)
		begins := delimiter == '{' || delimiter == '['
		switch {
		case inObject && !named && delimiter != '}':
			path, named = append(path, token.(string)), true // the decoder admits nothing else
			continue
		case begins && len(open) == mostDepth:
			return a.Malformed(fmt.Errorf("more than %d values within each other", mostDepth))
		case begins:
			open, named = append(open, delimiter), false
		case delimiter != 0:
			open = open[:len(open)-1]
		}

		err = visit(strings.Join(path, "."), token)
		switch {
		case errors.Is(err, ErrElements):
			in.since = math.MinInt // Elements has a bound of its own
			return a.Elements(ctx, io.MultiReader(decoder.Buffered(), in), each)
		case err != nil:
			return err
		case begins:
			continue
		case len(open) == 0:
			return nil
		}
		if named = false; open[len(open)-1] == '{' {
			path = path[:len(path)-1]
		}
	}
}

// mostDepth is how many values may be within each other.
const mostDepth = 100

// brokenOff returns the error of a value that Walk cannot read to its end.
func (a *Answer) brokenOff(ctx context.Context, in *patient, err error) error {
	switch {
	case in.err != nil:
		return a.Interrupted(ctx, in.err)
	case errors.Is(err, errPatience):
		return a.Fits(in.most)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return a.Interrupted(ctx, io.ErrUnexpectedEOF)
	}
	return a.Malformed(err)
}

// ErrElements is what visit returns to have Walk read the elements of an array.
var ErrElements = errors.New("read the elements")

// errPatience is the error of a patient reader.
var errPatience = errors.New("more than allowed at once")

// patient is a reader that fails if too much is read before since is set to 0 again.
type patient struct {
	ctx         context.Context
	in          io.Reader
	since, most int
	roomy       bool
	err         error
}

// Read reads, and asks for room for a long value.
func (p *patient) Read(into []byte) (int, error) {
	if p.since > p.most {
		return 0, errPatience
	}
	if p.since > providers.SmallAnswer && !p.roomy {
		if p.err = providers.ReadingOf(p.ctx).Room(p.ctx); p.err != nil {
			return 0, p.err
		}
		p.roomy = true
	}
	n, err := p.in.Read(into)
	if p.since += n; err != nil && !errors.Is(err, io.EOF) {
		p.err = err
	}
	return n, err
}

// Elements calls each as Lines does with every element of a JSON array, of which the body begins after its bracket.
func (a *Answer) Elements(ctx context.Context, body io.Reader, each func(element []byte, whole bool) error) error {
	s := a.scan(ctx, body)
	for {
		last, err := s.readElement()
		if err != nil {
			return s.failed(err)
		}
		if element := bytes.TrimSpace(s.kept); len(element) > 0 {
			if err := each(a.struck.strikeBytes(element), !s.over); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
	}
}

// scanner reads a body with many answers. It keeps the current one, up to a bound.
type scanner struct {
	ctx    context.Context
	answer *Answer
	in     *bufio.Reader
	kept   []byte
	over   bool // there was more than is kept
	roomy  bool // there is memory for a long answer
}

func (a *Answer) scan(ctx context.Context, body io.Reader) *scanner {
	return &scanner{ctx: ctx, answer: a, in: bufio.NewReader(body)}
}

// keep adds to the current answer, up to the bound.
func (s *scanner) keep(more []byte) error {
	most := cmp.Or(s.answer.most, providers.DefaultAnswer) + envelope
	if fits := most - len(s.kept); len(more) > fits {
		more, s.over = more[:max(fits, 0)], true
	}
	if !s.roomy && len(s.kept)+len(more) > providers.SmallAnswer {
		if err := providers.ReadingOf(s.ctx).Room(s.ctx); err != nil {
			return err
		}
		s.roomy = true
	}
	s.kept = append(s.kept, more...)
	return nil
}

func (s *scanner) readLine() (ended bool, err error) {
	s.kept, s.over = s.kept[:0], false
	for {
		piece, err := s.in.ReadSlice('\n')
		if full := s.keep(piece); full != nil {
			return false, full
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err == nil, err
		}
	}
}

// readElement reads up to the comma after the element, or to the end of its array.
func (s *scanner) readElement() (last bool, err error) {
	s.kept, s.over = s.kept[:0], false
	depth, quoted, escaped := 0, false, false

	var one [1]byte
	for {
		if one[0], err = s.in.ReadByte(); err != nil {
			return false, err
		}
		switch c := one[0]; {
		case escaped:
			escaped = false
		case quoted:
			quoted, escaped = c != '"', c == '\\'
		case c == '"':
			quoted = true
		case c == '{', c == '[':
			depth++
		case depth == 0 && (c == ',' || c == ']'):
			return c == ']', nil
		case c == '}', c == ']':
			depth--
		}
		if err := s.keep(one[:]); err != nil {
			return false, err
		}
	}
}

// failed returns the error of a body that was not read to its end.
func (s *scanner) failed(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return s.answer.Interrupted(s.ctx, err)
}
