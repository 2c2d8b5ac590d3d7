package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/simulator"
)

func simulated(t *testing.T, config simulator.Config) *simulator.Server {
	t.Helper()
	server, err := simulator.Listen("127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// twoDocuments is a prompt for a verdict; a is the better document.
var twoDocuments = strings.Join([]string{
	`<document id="a" fence="0badcafe">`, "A clean sentence stands here.", `</document fence="0badcafe">`,
	`<document id="b" fence="0badcafe">`, "a uncleen sentense stand here", `</document fence="0badcafe">`,
}, "\n")

const better = `"winner_doc_id":"a"`

// failing has every call fail, with a hint of two seconds.
func failing(failure simulator.Failure) simulator.Config {
	const hint = 2 * time.Second
	return simulator.Config{Behaviour: simulator.Behaviour{FailRate: 1, FailAs: failure, RetryAfter: simulator.Span{Min: hint, Max: hint}}}
}
