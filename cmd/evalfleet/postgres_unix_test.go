//go:build unix

package main

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/testing/pgtest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/internal/view"
	"github.com/evalfleet/evalfleet/internal/view/show"
)

// TestPostgresStore: one database stores a run that is killed and resumed, and the results of a fleet; the reading
// commands read it. No process keeps its password.
func TestPostgresStore(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const password = "open-sesame"
	f := newFleetWith(t, "--latency", "50ms")
	calls := f.gate()
	f.documents(6)
	f.runs = 30
	mine, theirs := f.evaluation("mine", "simulator:careful", 4, 4), f.evaluation("theirs", "simulator:careful", 4, 4)
	database := pgtest.New(t)
	pgtest.Exec(t, database, "CREATE ROLE "+pgtest.Locked+" LOGIN PASSWORD '"+password+"'; CREATE SCHEMA essays AUTHORIZATION "+pgtest.Locked)
	t.Cleanup(func() { pgtest.Exec(t, database, "DROP OWNED BY "+pgtest.Locked+"; DROP ROLE "+pgtest.Locked) })
	// The parts of a URL without the password, which the resuming user has in a file.
	url := pgtest.As(t, database, pgtest.Locked) + "&search_path=essays&passfile=" + f.write("pgpass", "*:*:*:*:"+password)
	if err := os.Chmod(filepath.Join(f.dir, "pgpass"), 0o600); err != nil {
		t.Fatal(err)
	}
	secret := strings.Replace(url, pgtest.Locked+"@", pgtest.Locked+":"+password+"@", 1)

	run := launch(t, f.dir, "run", mine, "--sink", secret, "--config", "fleet.yaml", "--out-dir", "out")
	calls.allow(f.runs / 3)
	f.until("a third is answered", func(s seen) bool { return s.All.Answered >= f.runs/3 })
	run.signal(syscall.SIGKILL)
	<-run.ended
	calls.open()
	said := []*program{run, f.do(exitOK, "resume", "out"), f.do(exitOK, "report", "out")}
	if list := looked[[]view.Evaluation](t, f.dir, "status", "out"); len(list) != 1 || list[0].Status != record.StatusDone || list[0].Phases[0].Succeeded != f.runs {
		t.Errorf("status: %+v, want one evaluation with %d runs", list, f.runs)
	}

	redis := []string{"--redis", f.redis.URL()}
	f.startWorkers(1)
	f.write("pgpass.yaml", "sink: \""+secret+"\"\n")
	enqueue := f.do(exitOK, append([]string{"enqueue", theirs, "--config", "pgpass.yaml"}, redis...)...)
	id := strings.TrimSpace(enqueue.stdout.String())
	kept := f.dump()
	said = append(said, enqueue, f.do(exitOK, append([]string{"collect", id, "--follow"}, redis...)...),
		f.do(exitOK, append([]string{"report", id}, redis...)...))
	shown := looked[show.Run](t, f.dir, append([]string{"show", "0.7", id}, redis...)...)
	if shown.Where != "sink" || len(shown.Calls) != 1 || len(shown.Prompt) != 2 {
		t.Errorf("show: %+v, want a run that is in the results store", shown)
	}
	if list := looked[[]view.Evaluation](t, f.dir, append([]string{"status", id}, redis...)...); len(list) != 1 || list[0].Used == nil || list[0].Used.Calls != f.runs {
		t.Errorf("status: %+v, want %d calls, as the results store has them", list, f.runs)
	}

	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var evaluations, runs, verdicts int
	err = conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM evaluations WHERE finished_at > created_at),
		(SELECT count(*) FROM runs WHERE state = 'succeeded'), (SELECT count(*) FROM pairwise_results)`).Scan(&evaluations, &runs, &verdicts)
	if err != nil || evaluations != 2 || runs != 2*f.runs || verdicts != 2*f.runs {
		t.Errorf("%d evaluations, %d runs, %d verdicts in the database, %v; want 2, %d, %d", evaluations, runs, verdicts, err, 2*f.runs, 2*f.runs)
	}

	texts := map[string]string{"Redis": kept}
	for _, p := range said {
		texts[strings.Join(p.cmd.Args[1:3], " ")] = p.stdout.String() + p.stderr.String()
	}
	err = filepath.WalkDir(f.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || strings.HasPrefix(entry.Name(), "pgpass") {
			return err
		}
		raw, err := os.ReadFile(path)
		texts[path] = string(raw)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for where, text := range texts {
		if strings.Contains(text, password) {
			t.Errorf("%s has the password", where)
		}
	}
	if !strings.Contains(kept, "search_path=essays") {
		t.Errorf("Redis does not say where the results store is: %s", kept)
	}
}
