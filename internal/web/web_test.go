package web

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker"
)

func TestMain(m *testing.M) {
	testrun.Parallel(8) // they wait for workers
	goleak.VerifyTestMain(m)
}

// hostile is a name that would run a script, end an attribute, and turn the
// text around.
const hostile = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202e{{.}}"

// judge answers with the first of two documents, and fails once, or not before it
// is let.
type judge struct {
	fails bool
	held  chan struct{}
}

func (j *judge) Call(_ context.Context, request *providers.Request) (*providers.Result, error) {
	if j.held != nil {
		<-j.held
	}
	if j.fails {
		j.fails = false
		return nil, &providers.Error{Class: providers.BadRequest, Status: 400, Message: hostile}
	}
	var schema struct {
		Properties struct {
			Winner struct {
				Enum []string `json:"enum"`
			} `json:"winner_doc_id"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(request.Schema.Schema, &schema); err != nil {
		return nil, &providers.Error{Class: providers.BadRequest, Message: err.Error()}
	}
	text, _ := json.Marshal(map[string]string{"winner_doc_id": schema.Properties.Winner.Enum[0], "reason": hostile})
	return &providers.Result{Text: string(text), Finish: providers.FinishStop}, nil
}

// site is a fleet with one evaluation done, with a failed run, and one without a worker.
type site struct {
	t          *testing.T
	store      *store.Store
	done, idle eval.ID
	pages      *Server
	server     *httptest.Server
}

func newSite(t *testing.T, change func(*Config)) *site {
	t.Helper()
	client := redistest.New(t).Client()
	s := &site{t: t, store: store.New(client, "")}
	limits := ratelimit.NewAdmin(client, ratelimit.Config{})
	s.done = s.submit(limits, hostile)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- worker.Run(ctx, worker.Config{
			Client: client, Endpoints: map[string]providers.Endpoint{"p": {Provider: &judge{fails: true}, Key: "k"}},
			Slots: 1, Lease: time.Hour, Grace: time.Minute, Log: zerolog.Nop(),
		})
	}()
	testrun.EventuallyGot(t, "the evaluation is done", func() (string, bool) {
		r, err := s.store.Evaluation(t.Context(), s.done)
		return fmt.Sprintf("%v, %v", r.Status, err), err == nil && r.Status == record.StatusDone
	})
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	s.idle = s.submit(limits, "waits")
	cfg := Config{Store: s.store, Limits: limits, Log: zerolog.New(zerolog.NewTestWriter(t))}
	if change != nil {
		change(&cfg)
	}
	s.pages = New(cfg)
	s.pages.streams.readTime, s.pages.streams.writeTime = time.Hour, time.Hour
	s.server = httptest.NewServer(s.pages)
	t.Cleanup(s.server.Close)
	return s
}

func (s *site) submit(limits enqueue.Limits, name string) eval.ID {
	s.t.Helper()
	asked, texts := question(name)
	receipt, err := (&enqueue.Enqueuer{Store: s.store, Limits: limits, Log: zerolog.Nop()}).Submit(s.t.Context(), enqueue.Submission{
		Evaluation: asked, Texts: texts,
		Settings: record.Settings{
			Priority: 1, Retry: record.DefaultRetry,
			Limits: []ratelimit.Limit{
				{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Concurrency, Max: 7},
				{Scope: ratelimit.Scope{Provider: "another"}, Kind: ratelimit.Concurrency, Max: 3},
			},
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return receipt.ID
}

// question compares three documents in six runs.
func question(name string) (*eval.Evaluation, map[string]string) {
	e := &eval.Evaluation{
		Name: name, Items: []eval.Item{{}}, JSON: eval.JSONAuto,
		Judges:   []eval.Judge{{Name: "p:m", Provider: "p", Model: "m"}},
		Pairwise: &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1},
	}
	texts := map[string]string{}
	for i := range 3 {
		text := fmt.Sprintf("text %d", i)
		e.Documents = append(e.Documents, eval.Document{ID: fmt.Sprintf("%d%s", i, hostile), Candidate: fmt.Sprint(i), Hash: eval.TextHash(text), Bytes: len(text)})
		texts[eval.TextHash(text)] = text
	}
	e.Normalize()
	return e, texts
}

// answer is the response to a request.
type answer struct {
	code   int
	header http.Header
}

// ask sends one request and returns the answer and its text.
func (s *site) ask(method, path string, header ...string) (answer, string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.server.URL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			request.Host = header[i+1]
		}
	}
	response, err := s.server.Client().Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header}, string(raw)
}

func TestPagesShowTheFleet(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for path, want := range map[string][]string{
		"/":                              {"waits", string(s.done), ">done<", ">active<", "of 6 runs", "<b data-live=\"evaluations.1.all.failed\">1</b> failed"},
		"/evaluations/" + string(s.done): {"<b data-live=\"all.done\">6</b> of 6 runs", "bad_request: &lt;script&gt;", "(after 1 call)", `href="/queues/p/pending"`, `href="/evaluations/` + string(s.done) + `/runs/0.`},
		"/evaluations/" + string(s.idle): {"provider p: 7 in flight", "0 of 7", `data-live="queues.0.pending">6<`, `data-live="queues.0.completed">5<`, `data-live="queues.0.archived">1<`},
		"/limits":                        {`<script src="/assets/tables.js" defer>`, "provider p: 7 in flight", "provider another: 3 in flight"},
		"/healthz":                       {"ok"},
		"/assets/live.js":                {"EventSource"},
		"/assets/tables.js":              {report.TableScript()},
	} {
		got, text := s.ask(http.MethodGet, path)
		if got.code != http.StatusOK {
			t.Errorf("%s answers %d", path, got.code)
		}
		for _, words := range want {
			if !strings.Contains(text, words) {
				t.Errorf("%s does not say %q:\n%s", path, words, text)
			}
		}
		if path != "/limits" && strings.Contains(text, "another") {
			t.Errorf("%s names the limit of a provider that the evaluation does not call", path)
		}
	}
	if got, text := s.ask(http.MethodGet, "/evaluations/ev-aaaaaaaaaaaa"); got.code != http.StatusNotFound || !strings.Contains(text, "no evaluation with this id") {
		t.Errorf("an evaluation that is not there answers %d: %s", got.code, text)
	}
	if got, _ := s.ask(http.MethodGet, "/nothing"); got.code != http.StatusNotFound {
		t.Errorf("a page that is not there answers %d", got.code)
	}
}

// Each number on a page names its place in the page's JSON, from which the
// script takes it: they must agree, or the page would change by itself.
func TestPagesAgreeWithTheirTwins(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for path, twin := range map[string]string{
		"/": "/api/evaluations", "/limits": "/api/limits", "/workers": "/api/workers", "/queues": "/api/queues",
		"/queues/p/pending": "/api/queues/p/pending", "/queues/p/completed": "/api/queues/p/completed", "/queues/p/archived": "/api/queues/p/archived",
		"/evaluations/" + string(s.done): "/api/evaluations/" + string(s.done),
		"/evaluations/" + string(s.idle): "/api/evaluations/" + string(s.idle),
	} {
		_, page := s.ask(http.MethodGet, path)
		if !strings.Contains(page, `data-api="`+twin+`"`) {
			t.Errorf("%s does not name %s as its twin", path, twin)
		}
		_, raw := s.ask(http.MethodGet, twin)
		var data any
		if err := json.Unmarshal([]byte(raw), &data); err != nil {
			t.Fatalf("%s is no JSON: %v", twin, err)
		}
		same := regexp.MustCompile(`data-same="([^"]+)" data-is="([^"]*)"`).FindAllStringSubmatch(page, -1)
		live := regexp.MustCompile(`data-live="([^"]+)"[^>]*>([^<]*)<`).FindAllStringSubmatch(page, -1)
		drawn := regexp.MustCompile(`data-live-(?:width|x|value|hide|status)="([^"]+)"()`).FindAllStringSubmatch(page, -1)
		if len(same) == 0 || len(live) == 0 {
			t.Errorf("%s has nothing live", path)
		}
		for _, match := range append(append(same, live...), drawn...) {
			value, ok := look(data, match[1])
			if !ok {
				t.Errorf("%s: %s is not in %s", path, match[1], twin)
			} else if match[2] != "" && plain(match[2]) != plain(words(value)) {
				t.Errorf("%s shows %s as %q, the twin says %v", path, match[1], match[2], value)
			}
		}
	}
}

// words are a value as the script compares and writes it.
func words(value any) string {
	list, ok := value.([]any)
	if !ok {
		return fmt.Sprint(value)
	}
	var all []string
	for _, one := range list {
		all = append(all, fmt.Sprint(one))
	}
	return strings.Join(all, ",")
}

// plain leaves out what separates thousands, and entities.
func plain(text string) string { return strings.ReplaceAll(html.UnescapeString(text), ",", "") }

// look follows a path as the script does.
func look(data any, path string) (any, bool) {
	for _, key := range strings.Split(path, ".") {
		switch of := data.(type) {
		case map[string]any:
			value, ok := of[key]
			if !ok {
				return nil, false
			}
			data = value
		case []any:
			var i int
			if key == "length" {
				data = len(of)
			} else if _, err := fmt.Sscan(key, &i); err != nil || i >= len(of) {
				return nil, false
			} else {
				data = of[i]
			}
		default:
			return nil, false
		}
	}
	return data, true
}

// Whatever names and errors contain, it stays text.
func TestNothingRecordedIsMarkup(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for _, path := range []string{"/", "/evaluations/" + string(s.done), "/evaluations/%3Cscript%3Ealert(1)"} {
		_, text := s.ask(http.MethodGet, path)
		if strings.Contains(text, "<script>") || strings.Contains(text, "<img") || strings.Contains(text, "\u202e") {
			t.Errorf("%s carries what was recorded as it is:\n%s", path, text)
		}
		if inline := regexp.MustCompile(`(?i) on[a-z]+=|style=|<script[^>]*>[^<]`).FindString(text); inline != "" && !strings.Contains(inline, "onerror") {
			t.Errorf("%s has %q, which its own policy forbids", path, inline)
		}
	}
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for path, want := range map[string]string{
		"/": pagePolicy, "/limits": pagePolicy, "/api/limits": pagePolicy, "/assets/live.js": pagePolicy, "/nothing": pagePolicy,
		"/evaluations/" + string(s.done): pagePolicy, "/queues": pagePolicy, "/queues/p/pending": pagePolicy,
	} {
		got, _ := s.ask(http.MethodGet, path)
		if got := got.header.Get("Content-Security-Policy"); got != want {
			t.Errorf("%s has the policy %q, want %q", path, got, want)
		}
		for header, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		} {
			if got := got.header.Get(header); got != want {
				t.Errorf("%s has %s %q, want %q", path, header, got, want)
			}
		}
	}
	// asynqmon's pages run the scripts inside them, and no others.
	for _, path := range []string{"/asynqmon/", "/asynqmon/queues/p", "/asynqmon/api/queues"} {
		got, page := s.ask(http.MethodGet, path)
		policy := got.header.Get("Content-Security-Policy")
		scripts := regexp.MustCompile(`script-src[^;]*`).FindString(policy)
		if !strings.HasPrefix(scripts, "script-src 'self'") || strings.Contains(scripts, "unsafe") || strings.Count(scripts, "'sha256-") != 2 {
			t.Errorf("%s has the policy %q", path, policy)
		}
		for _, script := range regexp.MustCompile(`<script>([^<]*)</script>`).FindAllStringSubmatch(page, -1) {
			if sum := sha256.Sum256([]byte(script[1])); !strings.Contains(scripts, base64.StdEncoding.EncodeToString(sum[:])) {
				t.Errorf("%s has a script that its policy forbids: %.40q", path, script[1])
			}
		}
	}
	if !strings.HasPrefix(pagePolicy, "default-src 'none'") || strings.Contains(pagePolicy, "unsafe") {
		t.Errorf("the pages' own policy is %q", pagePolicy)
	}
}

func TestQueuesAreReadOnlyUnlessAllowed(t *testing.T) {
	t.Parallel()
	task := "/asynqmon/api/queues/p/completed_tasks:delete_all"
	t.Run("read only", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, nil)
		if got, text := s.ask(http.MethodGet, "/asynqmon/"); got.code != http.StatusOK || !strings.Contains(text, "Asynq") {
			t.Errorf("/asynqmon/ answers %d: %s", got.code, text)
		}
		for method, path := range map[string]string{http.MethodPost: "/asynqmon/api/queues/p:pause", http.MethodDelete: task} {
			if got, _ := s.ask(method, path); got.code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s answers %d, want 405", method, path, got.code)
			}
		}
		if _, text := s.ask(http.MethodGet, "/asynqmon/api/queues/p/completed_tasks"); !strings.Contains(text, "run 0.") || !strings.Contains(text, " wins: ") {
			t.Errorf("payload or result is not shown:\n%s", text)
		}
	})
	t.Run("allowed", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, func(cfg *Config) { cfg.Actions = &acts{} })
		if got, _ := s.ask(http.MethodPost, "/asynqmon/api/queues/p:pause"); got.code != http.StatusNoContent {
			t.Errorf("pause answers %d, want 204", got.code)
		}
		info, err := asynq.NewInspectorFromRedisClient(store.Universal(s.store)).GetQueueInfo("p")
		if err != nil || !info.Paused {
			t.Errorf("the queue is not paused: %v, %v", info, err)
		}
		if _, text := s.ask(http.MethodGet, "/evaluations/"+string(s.idle)); !strings.Contains(text, "(paused)") {
			t.Error("the page does not say that the queue is paused")
		}
	})
}

// asynqmon shows the queues of its own fleet, also where another has one of the same
// name in the same Redis.
func TestQueuesOfAnotherFleetAreNotShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	client := redis.NewClient(s.store.Client().(*redis.Client).Options())
	defer client.Close()
	others := store.New(client, "others")
	client.AddHook(gate.Prefixed(others.Keys().Asynq()))
	other := &site{t: t, store: others}
	limits := ratelimit.NewAdmin(client, ratelimit.Config{Namespace: "others"})
	other.server = httptest.NewServer(New(Config{Store: others, Limits: limits, Log: zerolog.Nop()}))
	defer other.server.Close()
	if _, text := other.ask(http.MethodGet, "/asynqmon/api/queues"); strings.Contains(text, `"queue":"p"`) {
		t.Errorf("a fleet without an evaluation has a queue: %s", text)
	}
	other.submit(limits, "waits, too")
	for fleet, want := range map[*site]string{s: `"completed":5`, other: `"completed":0`} {
		_, text := fleet.ask(http.MethodGet, "/asynqmon/api/queues")
		if strings.Count(text, `"queue":"p"`) != 1 || !strings.Contains(text, want) {
			t.Errorf("queues: %s, want one with %s", text, want)
		}
	}
}

// However many ask for a report, it is built once a moment for its page, and once for its
// files while nothing more is recorded.
func TestReportsAreBuiltOnce(t *testing.T) {
	t.Parallel()
	folder, id := failedFolder(t)
	server := New(Config{Folder: folder, Log: zerolog.Nop(), Results: func(ctx context.Context, _ eval.ID) (results.Reader, error) { return folder.Open(ctx) }})
	var built atomic.Int64
	if r := &server.reports; r.Keep != 5*time.Second || r.AtOnce != 2 || r.Waiting != 8 {
		t.Errorf("reports are kept %s, built %d at a time, %d wait; want 5s, 2 and 8", r.Keep, r.AtOnce, r.Waiting)
	}
	build := server.reports.Make
	server.reports.Keep = time.Hour
	server.reports.Make = func(ctx context.Context, what reported) (*report.Report, error) {
		built.Add(1)
		return build(ctx, what)
	}
	s := &site{t: t, server: httptest.NewServer(server)}
	t.Cleanup(s.server.Close)
	of := "/evaluations/" + string(id)
	var all sync.WaitGroup
	for _, path := range []string{of + "/report", "/api" + of + "/files/report.html", "/api" + of + "/files/report.json", "/api" + of + "/files/report.md", "/api" + of + "/files/manifest.json"} {
		for range 4 {
			all.Go(func() {
				if got, text := s.ask(http.MethodGet, path); got.code != http.StatusOK || text == "" {
					t.Errorf("%s: answered with %d", path, got.code)
				}
			})
		}
	}
	all.Wait()
	if n := built.Load(); n != 2 {
		t.Errorf("the report was built %d times for 20 requests, want twice", n)
	}
}
