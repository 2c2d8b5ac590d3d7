package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// 300 connections try passwords at once: a few are compared, the others are told to come
// again, and all that fail are logged. A user elsewhere is answered meanwhile. Afterwards one
// attacker is delayed who tries again and again.
func TestCrowdOfLoginsAtTheProgram(t *testing.T) {
	t.Parallel()
	hash := string(must(bcrypt.GenerateFromPassword([]byte("right"), 10)))
	dir := tree(t, runFiles("users", "ann:"+hash+"\nbob:"+hash+"\n",
		"eval.yaml", "provider: simulator\nmodel: careful\ngrounding: off\nreasoning: off\nruns: [{file_a: a.md, file_b: b.md}]\n"))
	if code := launch(t, dir, "run", "eval.yaml", "--out-dir", "out").wait(); code != 0 {
		t.Fatalf("run ended with %d", code)
	}
	ui := launch(t, dir, "ui", "out", "--listen", "127.0.0.1:0", "--auth-file", "users")
	testrun.Eventually(t, "the pages are served", func() bool { return strings.Contains(ui.stdout.String(), "http://") })
	url := addressOf(ui) + "/"
	from := func(address string) *http.Client {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		transport := &http.Transport{DialContext: dialer.DialContext}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	answered := func(client *http.Client, name, password string) (int, string) {
		request, err := http.NewRequestWithContext(testrun.Context(t), http.MethodGet, url, nil)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		request.SetBasicAuth(name, password)
		answer, err := client.Do(request)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(text)
	}
	login := func(client *http.Client, name, password string) int {
		status, _ := answered(client, name, password)
		return status
	}
	ann := from("127.0.0.2")
	if got := login(ann, "ann", "right"); got != http.StatusOK {
		t.Fatalf("ann's login: got %d", got)
	}
	began := time.Now()
	for range 20 {
		login(ann, "ann", "right")
	}
	alone := time.Since(began) / 20
	const crowd = 300
	attackers := from("127.0.0.3")
	var all sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	turnedAway := 0
	for i := range crowd {
		all.Go(func() {
			got, text := answered(attackers, "guess"+string(rune('a'+i%26)), "wrong")
			mu.Lock()
			defer mu.Unlock()
			statuses[got]++
			if strings.Contains(text, "too many logins at once") {
				turnedAway++
			}
		})
	}
	began = time.Now()
	for range 20 {
		if got := login(ann, "ann", "right"); got != http.StatusOK {
			t.Errorf("ann meanwhile: got %d", got)
		}
	}
	beside := time.Since(began) / 20
	all.Wait()
	if got := login(from("127.0.0.4"), "bob", "right"); got != http.StatusOK {
		t.Errorf("bob's first login after the crowd: got %d", got)
	}
	t.Logf("answers to the crowd: %v; ann's request took %s alone and %s beside it, %.1f times as long", statuses, alone, beside, float64(beside)/float64(alone))
	if statuses[http.StatusUnauthorized]+statuses[http.StatusTooManyRequests] != crowd || statuses[http.StatusUnauthorized] == 0 || statuses[http.StatusTooManyRequests] < crowd/2 {
		t.Errorf("answers to the crowd: got %v, want 401 for a few of %d and 429 for the others", statuses, crowd)
	}
	if turnedAway == 0 {
		t.Errorf("%d logins waited for their comparison, want a few", crowd)
	}
	attacker, tries := from("127.0.0.5"), 0
	for ; tries < 8; tries++ { // each delays the next for longer
		got := login(attacker, "ann", "wrong")
		statuses[got]++
		if got == http.StatusTooManyRequests {
			break
		}
	}
	if tries < 3 || tries == 8 {
		t.Errorf("one attacker was delayed after %d tries, want 3, or a few more where the tries are slow", tries)
	}
	testrun.Eventually(t, "each failed login is logged", func() bool {
		return strings.Count(ui.stderr.String(), "login to the pages failed") == statuses[http.StatusUnauthorized]
	})
}
