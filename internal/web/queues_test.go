package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/view"
)

// The pages of queues list every task by its state, each with its run.
func TestQueuesShowTheirTasks(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	client := asynq.NewClientFromRedisClient(store.Universal(s.store))
	if _, err := client.EnqueueContext(t.Context(), asynq.NewTask("mail", []byte(hostile)), asynq.Queue("another/queue"), asynq.TaskID("mail"+hostile)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]string{
		"/queues": {`href="/queues/p/pending" data-live="queues.1.pending">6<`, `href="/queues/p/completed" data-live="queues.1.completed">5<`,
			`data-live="queues.1.archived">1<`, `href="/queues/another%2Fqueue/pending"`, `href="/asynqmon/"`},
		"/queues/p/pending": {`href="/evaluations/` + string(s.idle) + `/runs/0.5"`, `href="/evaluations/` + string(s.idle) + `"`, "p:m",
			`aria-current="page">Waiting <b data-live="pending">6</b>`, `href="/queues/p/archived">Failed, kept <b data-live="archived">1</b>`},
		"/queues/p/completed":               {`href="/evaluations/` + string(s.done) + `/runs/0.`, " wins: "},
		"/queues/p/archived":                {`href="/evaluations/` + string(s.done) + `/runs/0.`, "bad_request: &lt;script&gt;"},
		"/queues/p/active":                  {"No task of this queue"},
		"/queues/another%2Fqueue/pending":   {"a task of another program"},
		"/queues/another%2Fqueue/scheduled": {"No task of this queue"},
	} {
		got, text := s.ask(http.MethodGet, path)
		if got.code != http.StatusOK || strings.Contains(text, "<script>alert") {
			t.Errorf("%s answers %d, or carries what was recorded as it is:\n%s", path, got.code, text)
		}
		for _, words := range want {
			if !strings.Contains(text, words) {
				t.Errorf("%s does not have %q:\n%s", path, words, text)
			}
		}
	}
	var twin Tasks
	_, raw := s.ask(http.MethodGet, "/api/queues/p/pending")
	if err := json.Unmarshal([]byte(raw), &twin); err != nil || len(twin.Tasks.Tasks) != 6 || twin.Pending != 6 || twin.Tasks.Tasks[0].Run != "0.0" {
		t.Errorf("the twin has %+v: %v", twin, err)
	}
	for path, want := range map[string]int{
		"/queues/": http.StatusOK, "/queues/none/pending": http.StatusNotFound, "/queues/p/lost": http.StatusBadRequest,
		"/queues/p/pending?page=0": http.StatusBadRequest, "/queues/p/pending?page=9": http.StatusOK, "/api/queues/none/active": http.StatusNotFound,
	} {
		if got, _ := s.ask(http.MethodGet, path); got.code != want {
			t.Errorf("%s answers %d, want %d", path, got.code, want)
		}
	}
	if _, text := s.ask(http.MethodGet, "/queues/p/pending?page=1"); strings.Contains(text, "data-api") {
		t.Error("a page by its number names a twin, which is always that of the first page")
	}
}

// Each page of an archive has the tasks before those of the page before it, and no task is on
// two pages or on none.
func TestTasksAreListedFromTheLatest(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	client, inspector := asynq.NewClientFromRedisClient(store.Universal(s.store)), asynq.NewInspectorFromRedisClient(store.Universal(s.store))
	const all = 2*view.TasksShown + 7
	for i := range all {
		if _, err := client.EnqueueContext(t.Context(), asynq.NewTask("t", nil), asynq.Queue("q"), asynq.TaskID(fmt.Sprintf("t%03d", i))); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := inspector.ArchiveAllPendingTasks("q"); err != nil || n != all {
		t.Fatalf("archived %d tasks: %v", n, err)
	}
	next := all
	for page := 1; page <= 3; page++ {
		tasks, err := s.pages.fleet.Tasks(t.Context(), "q", "archived", page)
		if err != nil || tasks.Page != page || tasks.Pages != 3 {
			t.Fatalf("page %d of 3 is %+v: %v", page, tasks, err)
		}
		for _, task := range tasks.Tasks {
			next--
			if want := fmt.Sprintf("t%03d", next); task.ID != want {
				t.Fatalf("page %d has %s, want %s", page, task.ID, want)
			}
		}
	}
	if next != 0 {
		t.Errorf("%d tasks are on no page", next)
	}
}

// Every page of asynqmon leads back to ours, tells refusals and asks no other site; its scripts,
// icons and data are as they were.
func TestAsynqmonLeadsBack(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	const link = `<body><a href="/queues"`
	for _, path := range []string{"/asynqmon/", "/asynqmon/queues/p", "/asynqmon/queues/openai:gpt-5.1/tasks/x"} {
		got, page := s.ask(http.MethodGet, path)
		if got.code != http.StatusOK || strings.Count(page, link) != 1 || !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
			t.Errorf("%s answers %d, %q without one link back:\n%.1000s", path, got.code, got.header.Get("Content-Type"), page)
		}
		if strings.Count(page, tellsRefusals) != 1 || strings.Contains(page, "https://") {
			t.Errorf("%s does not tell refusals, or names another site:\n%.1000s", path, page)
		}
	}
	_, page := s.ask(http.MethodGet, "/asynqmon/")
	script := regexp.MustCompile(`src="(/asynqmon/static/js/main[^"]*)"`).FindStringSubmatch(page)
	if script == nil {
		t.Fatalf("asynqmon has no script:\n%s", page)
	}
	for path, begins := range map[string]string{script[1]: "(this.webpackJsonp", "/asynqmon/favicon-16x16.png": "\x89PNG\r\n", "/asynqmon/api/queues": "{"} {
		if got, text := s.ask(http.MethodGet, path); got.code != http.StatusOK || !strings.HasPrefix(text, begins) || strings.Contains(text, link) {
			t.Errorf("%s answers %d: %.100q", path, got.code, text)
		}
	}
}

// asynqmon's buttons that run archived tasks are refused with the reason: their runs have ended, so
// that workers would drop them.
func TestAsynqmonRunsNoArchivedTask(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(cfg *Config) { cfg.Actions = &acts{} })
	before := s.store.Client().ZCard(t.Context(), "asynq:{p}:archived").Val()
	for _, button := range []string{"archived_tasks/x:run", "archived_tasks:run_all", "archived_tasks:batch_run"} {
		got, text := s.ask(http.MethodPost, "/asynqmon/api/queues/p/"+button)
		if got.code != http.StatusConflict || !strings.Contains(text, "evalfleet retry") {
			t.Errorf("%s answers %d, %q; want 409 with the reason", button, got.code, text)
		}
	}
	if after := s.store.Client().ZCard(t.Context(), "asynq:{p}:archived").Val(); after != before {
		t.Errorf("%d of %d archived tasks are left", after, before)
	}
	if got, _ := s.ask(http.MethodPost, "/asynqmon/api/queues/p/scheduled_tasks:run_all"); got.code == http.StatusConflict {
		t.Error("scheduled tasks are not run either")
	}
}

// asynqmon's servers link to queues that there are, and its tables show whole ids.
func TestAsynqmonShowsServersAndIDsAsTheyAre(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	const told = `{"servers":[{"id":"x","host":"nowhere","pid":1,"concurrency":220,"queue_priorities":{"evalfleet":1}}]}`
	text := s.pages.serving(t.Context(), []byte(told))
	if !strings.Contains(string(text), `"queue_priorities":{}`) || !strings.Contains(string(text), `"concurrency":220`) {
		t.Errorf("a server whose worker is not known has queues or slots: %s", text)
	}
	_, page := s.ask(http.MethodGet, "/asynqmon/")
	script := regexp.MustCompile(`src="(/asynqmon/static/js/main[^"]*)"`).FindStringSubmatch(page)
	if script == nil {
		t.Fatalf("asynqmon has no script:\n%s", page)
	}
	if _, text := s.ask(http.MethodGet, script[1]); strings.Count(text, keepID) != 1 || strings.Contains(text, cutID) {
		t.Error("asynqmon's script cuts ids at their first dash")
	}
}
