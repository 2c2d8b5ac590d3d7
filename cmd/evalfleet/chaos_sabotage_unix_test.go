//go:build unix

package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// chaosSabotage breaks an invariant of a fleet behind the judge's back.
type chaosSabotage struct {
	breaks []string     // and no other invariant
	before func(*chaos) // the fleet is healed
	after  func(*chaos) // every evaluation has ended
	// batched: the fleet asks in batches.
	batched bool
}

var chaosSabotages = map[string]chaosSabotage{
	"nothing": {},
	"a submitter hangs": {breaks: []string{"liveness"}, before: func(c *chaos) {
		c.stuck = 5 * time.Second
		m := c.submitter("a")
		c.kill(m) // it may have ended
		c.start(m)
		m.signal(syscall.SIGSTOP)
	}},
	"calls beyond the fleet's limit": {breaks: []string{"limits", "cost"}, after: func(c *chaos) {
		c.exceed(c.simulatorURL(), "careful", chaosLimit+1)
	}},
	"calls beyond the limit of the account with a quota": {breaks: []string{"limits", "quota"}, after: func(c *chaos) {
		c.useQuota()
		c.exceed(c.meter, "average", chaosMeter+1)
	}},
	"an answer is asked for again": {breaks: []string{"cost"}, after: func(c *chaos) { c.call(c.simulatorURL(), "careful", 1) }},
	"a call beyond the quota": {breaks: []string{"quota"}, after: func(c *chaos) {
		c.useQuota()
		c.call(c.meter, "average", 1)
	}},
	"a call beyond the budget": {breaks: []string{"budget", "cost"}, after: func(c *chaos) {
		c.call(c.simulatorURL(), "dear", 2) // a budget leaves room for less than 1.5
	}},
	"a row is lost": {breaks: []string{"rows"}, after: func(c *chaos) {
		c.store("a", "DELETE FROM runs WHERE index_ = (SELECT min(index_) FROM runs)",
			"DELETE FROM pairwise_results WHERE id = (SELECT min(id) FROM pairwise_results)")
	}},
	"a verdict is lost": {breaks: []string{"verdicts"}, after: func(c *chaos) {
		c.store("b", "DELETE FROM pairwise_results WHERE id = (SELECT min(id) FROM pairwise_results)")
	}},
	"a verdict names a third document": {breaks: []string{"verdicts"}, after: func(c *chaos) {
		c.store("b", "UPDATE pairwise_results SET winner_doc_id = 'third' WHERE id = (SELECT min(id) FROM pairwise_results)")
	}},
	"a process ends by itself": {breaks: []string{"exit codes"}, before: func(c *chaos) {
		m := c.members[0]
		c.repeats += chaosLimit // what it has in flight is answered again
		m.signal(syscall.SIGKILL)
		<-m.ended
	}},
	"a worker that is stopped ends with an error": {breaks: []string{"exit codes"}, before: func(c *chaos) {
		p := c.program("worker", "--config", "absent.yaml")
		c.replaced = append(c.replaced, p)
	}},
	"a pause is not kept": {breaks: []string{"pause"}, before: func(c *chaos) {
		c.paused["a"] = c.arrivedOf("a") - chaosLimit - 1 // as if so many had arrived since
		c.endPauses("a")
	}},
	"an evaluation that was submitted again is deleted": {breaks: []string{"late packets"}, before: func(c *chaos) {
		end := lateDelete(c)
		c.command("delete", c.ids["c"], "--force")
		end()
	}},
	"nothing, in batches": {batched: true},
	"a request in two batches": {batched: true, breaks: []string{"batches", "cost"}, after: func(c *chaos) {
		c.batch("average", c.size.runs["b"], "Say something.")
		testrun.Eventually(c.t, "it has ended", func() bool { return c.stats().All.Batches.Enqueued == 0 })
	}},
	"a batch beyond the tokens of its limit": {batched: true, breaks: []string{"limits"}, after: func(c *chaos) {
		c.batch("average", 1, strings.Repeat("word ", 2*chaosEnqueued))
	}},
	"a key is left": {breaks: []string{"leftovers"}, after: func(c *chaos) {
		c.patience = 5 * time.Second
		c.onRedis(func(ctx context.Context, r *redis.Client) error {
			return r.Set(ctx, "ef:{"+c.ids["a"]+"}:left", "v", 0).Err()
		})
	}},
}

// TestChaosJudge plants a breach of each invariant in a fleet that meets no fault. The judge of
// TestChaos finds it, and nothing else.
func TestChaosJudge(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	small := chaosSize{
		runs:   map[string]int{"a": 60, "b": 30, "c": 30, "d": 40, "m": 40},
		budget: 25, quota: 8, lease: 30 * time.Second,
	}
	for name, sabotage := range chaosSabotages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			size := small
			size.batched = sabotage.batched
			c := newChaos(t, 1, size)
			if sabotage.before != nil {
				sabotage.before(c)
			}
			c.heal()
			c.sabotage = sabotage.after
			c.judge()
			got := slices.Sorted(maps.Keys(c.broken))
			want := slices.Sorted(slices.Values(sabotage.breaks))
			if !slices.Equal(got, want) {
				t.Errorf("found %v, want breaches of %v", c.broken, want)
			}
		})
	}
}

// useQuota waits until the fleet has used its quota, so that any further call is beyond it.
func (c *chaos) useQuota() {
	c.t.Helper()
	testrun.Eventually(c.t, "the quota is used", func() bool { return c.metered().All.Arrived >= c.size.quota })
}

// submitter returns the process that waits for an evaluation.
func (c *chaos) submitter(folder string) *member {
	c.t.Helper()
	for _, m := range c.members {
		if isSubmitter(m) && m.folder() == folder {
			return m
		}
	}
	c.t.Fatalf("no submitter of %s", folder)
	return nil
}

func (c *chaos) simulatorURL() string { return c.testFleet.provider }

// call sends calls to a provider past the fleet, at once, and waits until they have ended.
func (c *chaos) call(url, model string, calls int) {
	c.t.Helper()
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			body := fmt.Sprintf(`{"model": %q, "messages": [{"role": "user", "content": "Say something."}]}`, model)
			request, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
			if err != nil {
				c.t.Error(err)
				return
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Authorization", "Bearer "+chaosKey)
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				c.t.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		})
	}
	all.Wait()
}

// batch submits a batch of requests past the fleet.
func (c *chaos) batch(model string, requests int, text string) {
	c.t.Helper()
	var lines []string
	for i := range requests {
		lines = append(lines, fmt.Sprintf(
			`{"custom_id": "s%d", "params": {"model": %q, "max_tokens": 150, "messages": [{"role": "user", "content": "%d %s"}]}}`, i, model, i, text,
		))
	}
	body := `{"requests": [` + strings.Join(lines, ",") + `]}`
	url := c.simulatorURL() + "/v1/messages/batches"
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "X-Api-Key": chaosKey, "Anthropic-Version": "2023-06-01"} {
		request.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	_ = answer.Body.Close()
}

// exceed sends calls to a provider past the fleet until one of them is rejected.
func (c *chaos) exceed(url, model string, calls int) {
	c.t.Helper()
	testrun.Eventually(c.t, "a call is rejected", func() bool {
		c.call(url, model, calls)
		var s seen
		err := getJSON(c.t.Context(), url+"/stats", &s)
		return err == nil && s.All.Rejected > 0
	})
}

// store changes a results store.
func (c *chaos) store(folder string, statements ...string) {
	c.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(c.dir, folder, "results.db")+"?_pragma=busy_timeout(60000)")
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(c.t.Context(), statement); err != nil {
			c.t.Fatalf("%s: %v", statement, err)
		}
	}
}
