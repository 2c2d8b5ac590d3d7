package terminal

import (
	"bytes"
	"io"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/internal/telemetry/lossy"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
)

// Messages turns lines that are written for people into lines of a JSON log, so that a program reads nothing else
// there. It is safe for concurrent use.
type Messages struct {
	out io.Writer
	log zerolog.Logger

	mu   sync.Mutex // guards rest, and keeps lines from interleaving
	rest []byte     // a line that is not complete yet
}

// NewMessages returns a Messages that writes to out.
func NewMessages(out io.Writer) *Messages {
	raw := &shared{out: Raw(out)} // keeps writes of the log and of messages from interleaving
	if buffered, ok := raw.out.(*lossy.Writer); ok {
		buffered.SetLost(func(n int) []byte {
			var line bytes.Buffer
			log := zerolog.New(&line).With().Timestamp().Logger()
			log.Warn().Int("lines", n).Msg(lostLines(n))
			return line.Bytes()
		})
	}
	return &Messages{out: raw, log: zerolog.New(harmless.NewWriter(raw)).With().Timestamp().Logger()}
}

// Raw returns the writer for the log itself.
func (m *Messages) Raw() io.Writer { return m.out }

// Write logs every complete line.
func (m *Messages) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	whole := append(m.rest, p...)
	for {
		line, rest, ended := bytes.Cut(whole, []byte("\n"))
		if !ended {
			break
		}
		if whole = rest; len(bytes.TrimSpace(line)) > 0 {
			m.log.Info().Msg(strings.TrimPrefix(string(line), "evalfleet: "))
		}
	}
	m.rest = append([]byte(nil), whole...)
	return len(p), nil
}

// report logs a line with facts, which are its fields.
func (m *Messages) report(line string, facts map[string]any) { m.log.Info().Fields(facts).Msg(line) }

// Error logs the text of an error as one entry, even if it has several lines.
func (m *Messages) Error(text string) { m.log.Error().Msg(text) }
