//go:build look && unix

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// tableClick is a click on a button of a table of tasks.
type tableClick struct {
	does  string // Delete, Archive, Run or Cancel
	many  int    // tasks that it concerns
	says  string // what the page says afterwards
	click func()
}

// steps are the clicks that do something to the tasks of a queue in a state: to one, to all that are
// selected but one, and to all. tasks are there at each click.
func (m *monitored) steps(queue, state string, tasks int, does ...string) (all []tableClick) {
	for _, do := range does {
		after := map[string]string{"Delete": "deleted", "Archive": "archived", "Run": "pending", "Cancel": "canceled"}[do]
		one, many, first := "task is now "+after, "tasks are now "+after, strings.ToUpper(state[:1])+state[1:]
		if do == "Delete" {
			one, many = "task deleted", "tasks deleted"
		}

		all = append(all,
			tableClick{do, 1, first + " " + one, func() {
				m.open(queue, state)
				m.b.Hover(firstCell)
				m.b.Click(named(firstCell, do))
			}},
			tableClick{do, tasks - 1, fmt.Sprintf("%d %s %s", tasks-1, state, many), func() {
				m.open(queue, state)
				m.b.Click(selectAll)
				m.b.Click(firstBox)
				m.b.Click(named(besideMenu, do))
			}},
			tableClick{do, tasks, fmt.Sprintf("All %s %s", state, many), func() {
				m.open(queue, state)
				m.b.Click(moreMenu)
				m.b.Click(named(menu, do+" All"))
			}})
	}
	return all
}

const (
	besideMenu = `document.querySelector('button[aria-label="actions"]')?.nextElementSibling`
	menu       = `document.getElementById("action-menu")`
)

// open shows the tasks of a queue in a state, and waits until some are listed.
func (m *monitored) open(queue, state string) {
	m.t.Helper()
	m.b.Open(m.acting+"/asynqmon/queues/"+queue+"?status="+state, 1400, false)
	m.b.Until("tasks are listed", fmt.Sprintf(`document.querySelector('table[aria-label="%s tasks table"] tbody tr')`, state))
}

// wantButtons wants buttons, and no others, for a task, for those selected and for all.
func (m *monitored) wantButtons(queue, state string, want ...string) {
	m.t.Helper()
	slices.Sort(want)
	wants := func(of, element, suffix string) {
		m.t.Helper()
		testrun.EventuallyGot(m.t, fmt.Sprintf("the buttons for %s that are %s are %q", of, state, want), func() (string, bool) {
			got := m.names(element)
			return fmt.Sprint(got), slices.EqualFunc(want, got, func(want, got string) bool { return want+suffix == got })
		})
	}
	m.open(queue, state)
	m.b.Hover(firstCell)
	wants("a task", firstCell, "")
	m.open(queue, state) // scrolled back
	m.b.Click(selectAll)
	wants("selected tasks", besideMenu, "")
	m.b.Click(moreMenu)
	wants("all tasks", menu, " All")
}

// onQueue clicks a button of a queue.
func (m *monitored) onQueue(queue, button string) {
	m.t.Helper()
	m.b.Open(m.acting+"/asynqmon/", 1400, false)
	row := fmt.Sprintf(`[...document.querySelectorAll("tbody tr")].find(r => r.querySelector("th").innerText.trim() === %q)`, queue)
	cell := row + "?.lastElementChild"
	m.b.Hover(cell)
	m.b.Click(named(cell, button))
}

// says waits until the page says something.
func (m *monitored) says(text string) {
	m.t.Helper()
	m.b.Until("the page says "+text, fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// until waits until a condition holds of a queue.
func (m *monitored) until(queue, what string, holds func(*asynq.QueueInfo) bool) {
	m.t.Helper()
	testrun.EventuallyGot(m.t, queue+": "+what, func() (string, bool) {
		info, err := m.asynq.GetQueueInfo(queue)
		return fmt.Sprintf("%+v, %v", info, err), err == nil && holds(info)
	})
}

// list returns the tasks of a queue in a state.
func (m *monitored) list(queue, state string) []*asynq.TaskInfo {
	m.t.Helper()
	tasks, err := map[string]func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){
		"active": m.asynq.ListActiveTasks, "pending": m.asynq.ListPendingTasks,
		"scheduled": m.asynq.ListScheduledTasks, "retry": m.asynq.ListRetryTasks,
	}[state](queue)
	if err != nil {
		m.t.Fatal(err)
	}
	return tasks
}

// ids are those of tasks of a queue in a state.
func (m *monitored) ids(queue, state string) (ids []string) {
	m.t.Helper()
	for _, task := range m.list(queue, state) {
		ids = append(ids, task.ID)
	}
	return ids
}

// schedule has n of the tasks of busy scheduled, and the others pending.
func (m *monitored) schedule(n int) {
	m.t.Helper()
	client := asynq.NewClientFromRedisClient(m.redis.Client())
	for _, task := range m.list("busy", "pending")[:n-len(m.list("busy", "scheduled"))] {
		if err := m.asynq.DeleteTask("busy", task.ID); err != nil {
			m.t.Fatal(err)
		}
		options := []asynq.Option{
			asynq.TaskID(task.ID), asynq.Queue("busy"), asynq.MaxRetry(task.MaxRetry),
			asynq.Timeout(task.Timeout), asynq.Retention(task.Retention), asynq.ProcessIn(time.Hour),
		}
		if _, err := client.EnqueueContext(m.t.Context(), asynq.NewTask(task.Type, task.Payload), options...); err != nil {
			m.t.Fatal(err)
		}
	}
}

// again pauses and resumes an evaluation, and waits until its unfinished runs of a queue have been
// pushed again. Only then is the push over: it notes last how far it came.
func (m *monitored) again(id, queue string) {
	m.t.Helper()
	m.onFleet(exitOK, "pause", id)
	m.onFleet(exitOK, "resume", id)
	of := store.New(m.redis.Client(), "")
	testrun.EventuallyGot(m.t, "the runs of "+queue+" are pushed", func() (string, bool) {
		standings, err := of.Standings(m.t.Context(), []eval.ID{eval.ID(id)})
		pushed := standings[eval.ID(id)].Pushed(0, queue, true)
		return fmt.Sprint(pushed, err), err == nil && pushed == perJudge
	})
}
