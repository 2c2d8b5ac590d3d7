//go:build look && unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/looktest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// monitored is a fleet whose tasks are changed in asynqmon's pages, as a user does it.
type monitored struct {
	*testFleet
	b               *looktest.Browser
	asynq           *asynq.Inspector
	calls           *turnstile   // before the provider of busy
	tried           atomic.Int64 // calls of refusing
	acting, looking string       // addresses of the pages with actions and without
	main, refused   string       // evaluations
	good            string       // the queue of main alone
}

const (
	perJudge = 12
	// The parts of a table of tasks, as scripts find them.
	selectAll = `document.querySelector('thead input[type="checkbox"]')`
	firstBox  = `document.querySelector('tbody input[type="checkbox"]')`
	moreMenu  = `document.querySelector('button[aria-label="actions"]')`
	firstCell = `document.querySelector("tbody tr")?.lastElementChild`
	// What a user can press in an element, by name. A tooltip that is open has its button's title.
	shownIn = `((within, all) => {
		const shown = e => e.checkVisibility({visibilityProperty: true}) && !e.disabled && e.getAttribute("aria-disabled") !== "true";
		const name = e => e.getAttribute("aria-label") || e.title || document.getElementById(e.getAttribute("aria-describedby"))?.innerText
			|| e.innerText?.trim().replace(/\s+/g, " ") || e.type || e.tagName;
		return [...(within?.querySelectorAll(all) ?? [])].filter(shown).map(e => [name(e), e]);
	})(%s, "button, a, input, select, [role=button], [role=menuitem], [role=slider]")`
)

// named finds what a user can press in an element under a name.
func named(within, name string) string {
	return fmt.Sprintf(shownIn+".find(([name]) => name === %q)?.[1]", within, name)
}

// names are those of what a user can press in an element.
func (m *monitored) names(within string) (all []string) {
	m.t.Helper()
	m.b.Run(fmt.Sprintf("[...new Set("+shownIn+".map(([name]) => name))].sort()", within), &all)
	return all
}

// TestLookAsynqmon opens every page of asynqmon in Chromium and clicks its every button while a
// fleet works: each does what docs/pages.md says, no script fails, and every run is recorded once.
func TestLookAsynqmon(t *testing.T) {
	m := newMonitored(t)
	m.changesPending()
	m.changesScheduled()
	m.pausesQueue()
	m.showsPages()
	m.cancels()
	m.changesRetries()
	m.refusesArchived()
	m.deletesEnded()
	m.ends()
}

// newMonitored is a fleet without workers. One provider holds its calls, one answers, one fails and
// one refuses, so that tasks get into all states.
func newMonitored(t *testing.T) *monitored {
	t.Helper()
	f := newFleetWith(t, "--latency", "10ms")
	m := &monitored{testFleet: f, calls: newTurnstile(t, f.provider), b: looktest.NewBrowser(t)}
	m.asynq = asynq.NewInspectorFromRedisClient(f.redis.Client())
	answers := func(status int, count *atomic.Int64) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			count.Add(1)
			http.Error(w, "no", status)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	f.write("fleet.yaml", fmt.Sprintf(`providers:
  busy: {dialect: chat, base_url: "%s/v1"}
  good: {dialect: chat, base_url: "%s/v1"}
  failing: {dialect: chat, base_url: "%s/v1"}
  refusing: {dialect: chat, base_url: "%s/v1"}
concurrency:
  timeout_seconds: 7200
  per_provider: {busy: {max_concurrency: 4}, failing: {max_concurrency: 9}, refusing: {max_concurrency: 9}}
`, m.calls.URL, f.provider, answers(http.StatusBadRequest, new(atomic.Int64)), answers(http.StatusServiceUnavailable, &m.tried)))
	f.documents(4)

	enqueue := func(name, judges, more string) string {
		f.write(name+".yaml", fmt.Sprintf("name: %s\ndocuments: [docs/*.md]\njudges: [%s]\npairwise: {pairs: all, order: both}\n%s",
			name, judges, more))
		return strings.TrimSpace(f.onFleet(exitOK, "enqueue", name+".yaml", "--config", "fleet.yaml").stdout.String())
	}
	m.main = enqueue("main", "busy:careful, good:careful, failing:careful", "")
	m.refused = enqueue("refused", "refusing:careful",
		"outage: 0s\nretry: {max_attempts: 5, initial_delay: 1h, max_delay: 1h, jitter: 0s}\n")
	m.good = "good~" + m.main
	charts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[
			{"metric":{"queue":"busy"},"values":[[%s,"1"],[%s,"2"]]}]}}`,
			r.FormValue("start"), r.FormValue("end"))
	}))
	t.Cleanup(charts.Close)
	controller := []string{"controller", "--listen", "127.0.0.1:0", "--metrics-addr", "off", "--drain=false"}
	acting, looking := f.program(append(controller, "--allow-actions", "--prometheus", charts.URL)...), f.program(controller...)
	acting.line()
	looking.line()
	m.again(m.main, "busy")
	m.acting, m.looking = addressOf(acting), addressOf(looking)
	return m
}

// changesPending clicks the buttons of Pending before there are workers: what was deleted or
// archived comes back when its evaluation is paused and resumed.
func (m *monitored) changesPending() {
	m.t.Helper()
	m.wantButtons("busy", "pending", "Delete", "Archive")
	for _, step := range m.steps("busy", "pending", perJudge, "Delete", "Archive") {
		step.click()
		m.says(step.says)
		m.until("busy", step.says, func(q *asynq.QueueInfo) bool {
			return q.Pending == perJudge-step.many && q.Archived == map[string]int{"Archive": step.many}[step.does]
		})
		m.b.Quiet("")
		m.again(m.main, "busy")
		m.until("busy", "all runs are pushed again", func(q *asynq.QueueInfo) bool { return q.Pending == perJudge && q.Archived == 0 })
	}
}

// changesScheduled clicks the buttons of Scheduled. evalfleet itself schedules no tasks, so that the
// test does. One that is run goes behind those that are pending.
func (m *monitored) changesScheduled() {
	m.t.Helper()
	const some = perJudge / 2
	m.schedule(some)
	m.wantButtons("busy", "scheduled", "Delete", "Archive", "Run")
	for _, step := range m.steps("busy", "scheduled", some, "Delete", "Archive", "Run") {
		m.until("busy", "all runs are in the queue", func(q *asynq.QueueInfo) bool { return q.Pending+q.Scheduled == perJudge })
		m.schedule(some)
		before := m.ids("busy", "pending")
		step.click()
		m.says(step.says)
		m.until("busy", step.says, func(q *asynq.QueueInfo) bool {
			of := map[string]int{step.does: step.many}
			return q.Scheduled == some-step.many && q.Pending == some+of["Run"] && q.Archived == of["Archive"]
		})
		if after := m.ids("busy", "pending"); !slices.Equal(after[:some], before) {
			m.t.Errorf("%s: pending tasks were %q and are %q", step.says, before, after)
		}
		m.b.Quiet("")
		m.again(m.main, "busy")
	}
	m.until("busy", "all runs wait in the queue", func(q *asynq.QueueInfo) bool {
		return q.Pending+q.Scheduled == perJudge && q.Archived == 0
	})
}

// pausesQueue pauses a queue before workers start, which pull all others, and resumes it.
func (m *monitored) pausesQueue() {
	m.t.Helper()
	m.schedule(2) // stay scheduled
	m.onQueue("busy", "Pause")
	m.b.Until("the page says that the queue is paused", `document.querySelector("tbody").innerText.includes("paused")`)
	m.until("busy", "it is paused", func(q *asynq.QueueInfo) bool { return q.Paused })
	m.b.Quiet("")
	m.startWorkers(2)
	m.until(m.good, "its runs succeed", func(q *asynq.QueueInfo) bool { return q.Completed == perJudge })
	m.until("failing", "its runs fail", func(q *asynq.QueueInfo) bool { return q.Archived == perJudge })
	m.until("refusing", "its runs wait", func(q *asynq.QueueInfo) bool { return q.Retry == perJudge })
	if held := m.calls.held.Load(); held != 0 {
		m.t.Errorf("%d calls were made from a paused queue", held)
	}
	resumed := m.onFleet(exitOK, "resume", m.main)
	if said := resumed.stdout.String() + resumed.stderr.String(); !strings.Contains(said, "asynqmon still pauses busy") {
		m.t.Errorf("evalfleet resume says %q, want that asynqmon still pauses the queue", said)
	}
	if by := m.statuses()[eval.ID(m.main)].BoundBy; !strings.Contains(strings.Join(by, "\n"), "asynqmon, where queue busy is paused") {
		m.t.Errorf("status says that it is bound by %q, want the paused queue", by)
	}

	m.onQueue("busy", "Resume")
	m.until("busy", "it is resumed", func(q *asynq.QueueInfo) bool { return !q.Paused })
	m.b.Until("the page says that the queue runs", `!document.querySelector("tbody").innerText.includes("paused")`)
	m.untilHeld(m.calls, 4)
	m.b.Quiet("")
}

// changing are names of what changes something, and those that a button has without a name.
var changing = []string{
	"Pause", "Resume", "Delete", "Archive", "Run", "Cancel", "actions", "select all tasks shown in the table",
	"checkbox", "button", "submit",
}

// shoot keeps a picture of a page that a user sees, and wants nothing on it that changes something
// unless actions are allowed.
func (m *monitored) shoot(address, page string) {
	m.t.Helper()
	of := map[string]string{m.acting: "acting", m.looking: "looking"}[address]
	m.b.Shoot(filepath.Join(looktest.Folder(m.t), fmt.Sprintf("asynqmon-%s-%s.png", of, page)))
	shown := m.names("document.body")
	if address == m.looking && slices.ContainsFunc(shown, func(name string) bool { return slices.Contains(changing, name) }) {
		m.t.Errorf("%s: without actions a user sees %q", page, shown)
	}
	m.b.Quiet("")
}

// showsPages opens every page with actions and without, by the links that a user has.
func (m *monitored) showsPages() {
	m.t.Helper()
	for _, address := range []string{m.acting, m.looking} {
		m.b.Open(address+"/asynqmon/", 1400, false)
		m.b.Until("the queues are listed", `document.querySelectorAll("tbody tr").length === 4`)
		m.b.Hover(firstCell)
		m.shoot(address, "queue")
		for _, page := range []struct{ link, says string }{
			{"Servers", "busy, failing"}, {"Schedulers", "No entries found"}, {"Redis", "INFO Command Output"},
			{"Settings", "Polling Interval"}, {"Metrics", "Queue Latency"}, {"Queues", "Tasks Processed"},
		} {
			if page.link == "Metrics" && address == m.looking { // this controller has no Prometheus
				if slices.Contains(m.names("document.body"), page.link) {
					m.t.Error("a link leads to charts that there are not")
				}
				continue
			}
			m.b.Click(named(`document.querySelector("header + div")`, page.link))
			m.b.Until(page.link+" is shown", fmt.Sprintf(`document.querySelector("main").innerText.includes(%q)`, page.says))
			if page.link == "Servers" {
				m.b.Until("each worker has 100 slots",
					`[...document.querySelectorAll("tbody tr")].filter(r => /\d\/100\b/.test(r.innerText)).length === 2`)
				m.b.Click(named("document.querySelector('main')", "expand row"))
				m.b.Until("its tasks are shown", `document.querySelector("main").innerText.includes("Task Payload")`)
			}
			m.shoot(address, strings.ToLower(page.link))
		}

		m.b.Click(named("document.querySelector('tbody')", "busy"))
		m.showsTasks(address)
		m.b.Click(named("document.body", "Back to evalfleet"))
		m.b.Loaded("Back to evalfleet")
		m.b.Quiet("")
	}
}

// showsTasks opens the tasks in each state, and the details of one, from the page of busy.
func (m *monitored) showsTasks(address string) {
	m.t.Helper()
	for _, tab := range []struct {
		queue, state string
		tasks        int // at least
	}{
		{"busy", "Active", 4}, {"busy", "Pending", 1}, {"busy", "Aggregating", 0}, {"busy", "Scheduled", 2},
		{"refusing", "Retry", perJudge}, {"failing", "Archived", perJudge}, {m.good, "Completed", perJudge},
	} {
		state := strings.ToLower(tab.state)
		if tab.queue != "busy" {
			m.b.Open(address+"/asynqmon/queues/"+tab.queue, 1400, false)
		}
		m.b.Click(fmt.Sprintf(`[...document.querySelectorAll(".MuiChip-clickable")].find(c => c.innerText.startsWith(%q))`, tab.state))
		if tab.tasks == 0 {
			m.says("No " + state + " tasks")
		} else {
			m.b.Until("its tasks are listed",
				fmt.Sprintf(`document.querySelectorAll('table[aria-label="%s tasks table"] tbody tr').length >= %d`, state, tab.tasks))
			m.b.Hover(firstCell)
		}
		m.shoot(address, state)
	}

	m.b.Click(`[...document.querySelectorAll("tbody tr:first-child td")].find(cell => cell.innerText === "pairwise")`)
	m.b.Until("the task has its whole id",
		fmt.Sprintf(`/Task Info\s+ID:\s+%s\.0\.\d+\.0\s/.test(document.querySelector("main").innerText)`, m.main))
	m.shoot(address, "task")
}

// cancels clicks the buttons of Active: calls are cut off, and their runs are pulled again.
func (m *monitored) cancels() {
	m.t.Helper()
	m.wantButtons("busy", "active", "Cancel")
	steps := m.steps("busy", "active", 4, "Cancel")
	for cut := m.calls.left.Load(); m.calls.left.Load() == cut; { // some tasks wait for a limit, and have no call
		var id string
		steps[0].click()
		m.b.Until("the row says so", `document.querySelector("tbody tr").innerText.includes("Canceling")`)
		m.b.Run(`document.querySelector("tbody tr th").innerText.trim()`, &id)
		testrun.EventuallyGot(m.t, id+" was put back", func() (string, bool) {
			task, err := m.asynq.GetTaskInfo("busy", id)
			return fmt.Sprintf("%+v, %v", task, err), err == nil && task.LastErr != ""
		})
		m.b.Quiet("")
	}

	for i, says := range []string{"Cancelation signal sent to", "Cancelation signal sent to all tasks in busy queue"} {
		m.untilHeld(m.calls, 4)
		before := m.calls.left.Load()
		steps[i+1].click()
		m.says(says)
		testrun.EventuallyGot(m.t, "calls are cut off", func() (string, bool) {
			now := m.calls.left.Load() - before
			return fmt.Sprint(now), now >= 3
		})
		m.b.Quiet("")
	}
	m.untilHeld(m.calls, 4)
	m.until("busy", "its runs are in the queue", func(q *asynq.QueueInfo) bool { return q.Size == perJudge && q.Active >= 4 })
}

// changesRetries clicks the buttons of Retry, while runs must wait for an hour.
func (m *monitored) changesRetries() {
	m.t.Helper()
	m.wantButtons("refusing", "retry", "Delete", "Archive", "Run")
	tried := m.tried.Load()
	for _, step := range m.steps("refusing", "retry", perJudge, "Run", "Delete", "Archive") {
		step.click()
		m.says(step.says)
		m.b.Quiet("")
		if step.does == "Run" {
			m.until("refusing", "they have been pulled and wait again", func(q *asynq.QueueInfo) bool {
				again := 0
				for _, task := range m.list("refusing", "retry") {
					if strings.Contains(task.LastErr, "its wait is not over") {
						again++
					}
				}
				return again >= step.many && q.Retry == perJudge
			})
			continue
		}

		m.until("refusing", step.says, func(q *asynq.QueueInfo) bool {
			return q.Retry == perJudge-step.many && q.Archived == map[string]int{"Archive": step.many}[step.does]
		})
		m.again(m.refused, "refusing")
		m.until("refusing", "all wait again", func(q *asynq.QueueInfo) bool { return q.Retry == perJudge && q.Archived == 0 })
	}
	if now := m.tried.Load(); now != tried {
		m.t.Errorf("%d calls were made before their time", now-tried)
	}
}

// refusesArchived clicks the buttons that run archived tasks: the page says why they do nothing.
func (m *monitored) refusesArchived() {
	m.t.Helper()
	m.wantButtons("failing", "archived", "Delete", "Run")
	for _, step := range m.steps("failing", "archived", perJudge, "Run") {
		step.click()
		m.says("409: an archived task is the record of a failed run")
		m.b.Shoot(filepath.Join(looktest.Folder(m.t), "asynqmon-refused.png"))
		m.b.Quiet("409 (Conflict)")
		m.until("failing", "nothing has changed", func(q *asynq.QueueInfo) bool { return q.Archived == perJudge && q.Size == perJudge })
	}
}

// deletesEnded clicks Delete of Archived and Completed until their queues are empty, and of queues.
func (m *monitored) deletesEnded() {
	m.t.Helper()
	m.wantButtons(m.good, "completed", "Delete")
	before := m.statuses()[eval.ID(m.main)].Phases[0]
	for state, queue := range map[string]string{"archived": "failing", "completed": m.good} {
		m.onQueue(queue, "Delete")
		m.says("Queue is not empty")
		m.b.Shoot(filepath.Join(looktest.Folder(m.t), "asynqmon-not-empty.png"))
		m.b.Click(named(`document.querySelector('[role="dialog"]')`, "OK"))
		left := perJudge
		for _, step := range m.steps(queue, state, left, "Delete") {
			if step.many > 1 {
				step.says = map[int]string{
					perJudge - 1: fmt.Sprintf("%d %s tasks deleted", left-1, state), perJudge: fmt.Sprintf("All %s tasks deleted", state),
				}[step.many]
			}
			step.click()
			m.says(step.says)
			left = map[int]int{1: perJudge - 1, perJudge - 1: 1, perJudge: 0}[step.many]
			m.until(queue, step.says, func(q *asynq.QueueInfo) bool { return q.Size == left })
			m.b.Quiet("")
		}

		m.onQueue(queue, "Pause")
		m.until(queue, "it is paused", func(q *asynq.QueueInfo) bool { return q.Paused })
		m.onQueue(queue, "Delete")
		m.says("Are you sure you want to delete")
		m.b.Click(named(`document.querySelector('[role="dialog"]')`, "CANCEL"))
		m.until(queue, "it is there", func(q *asynq.QueueInfo) bool { return q.Size == 0 })
		m.onQueue(queue, "Delete")
		m.says("Are you sure you want to delete")
		m.b.Click(named(`document.querySelector('[role="dialog"]')`, "DELETE"))
		m.b.Until("the queue is not listed",
			fmt.Sprintf(`![...document.querySelectorAll("tbody th")].some(h => h.innerText.trim() === %q)`, queue))
		if queues, err := m.asynq.Queues(); err != nil || slices.Contains(queues, queue) {
			m.t.Errorf("queues are %q, %v; want them without %s", queues, err, queue)
		}
		m.b.Quiet("")
	}
	if now := m.statuses()[eval.ID(m.main)].Phases[0]; now.Succeeded != before.Succeeded || now.Failed != before.Failed {
		m.t.Errorf("status says %+v, and said %+v before tasks were deleted", now, before)
	}
}

// ends has failed runs retried, whose queue comes back as paused as it was, and both evaluations end.
func (m *monitored) ends() {
	m.t.Helper()
	m.onFleet(exitOK, "retry", m.main)
	m.until("failing", "its runs are pushed", func(q *asynq.QueueInfo) bool { return q.Pending == perJudge && q.Paused })
	m.onQueue("failing", "Resume")
	m.until("failing", "its runs fail again", func(q *asynq.QueueInfo) bool { return q.Archived == perJudge })
	m.until("busy", "two tasks are scheduled", func(q *asynq.QueueInfo) bool { return q.Scheduled == 2 })
	step := m.steps("busy", "scheduled", 2, "Run")[2]
	step.click()
	m.says(step.says)
	m.calls.open()
	m.onFleet(exitOK, "cancel", m.refused)
	m.onFleet(exitOK, "collect", m.main, "--out-dir", "out")
	if failed := m.wantRows("out", 3*perJudge); failed != perJudge {
		m.t.Errorf("%d runs have failed, want those of failing", failed)
	}
	m.onFleet(exitOK, "collect", m.refused, "--out-dir", "refused")
	if s := m.inFolder("refused"); s.Status != record.StatusCancelled || s.Phases[0].Cancelled != perJudge {
		m.t.Errorf("the cancelled evaluation: %+v", s)
	}
}
