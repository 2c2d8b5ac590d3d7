package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// Someone who may write to Redis names a results store on a server of their own, and an id
// that leads out of the output folder. No command opens the one, and none makes folders
// by the other; the other evaluations are collected.
func TestHostileRecordOpensNoDatabaseAndMakesNoFolder(t *testing.T) {
	t.Parallel()
	evil, met := stranger(t)
	server := redistest.NewTCP(t)
	client := redis.NewClient(redistest.Patient(must(redis.ParseURL(server.URL()))))
	t.Cleanup(func() { _ = client.Close() })
	top := tree(t, map[string]string{
		"here/docs/a.md": "Alpha.", "here/docs/b.md": "Beta.",
		"here/good.yaml": "name: good\n" + pairOfDocuments, "here/evil.yaml": "name: evil\n" + pairOfDocuments, "here/far.yaml": "name: far\n" + pairOfDocuments,
	})
	dir := filepath.Join(top, "here")
	in := func(args ...string) *program {
		return launchWith(t, dir, []string{"PGPASSWORD=planted-password"}, append(args, "--redis", server.URL())...)
	}
	submit := func(file string) string {
		t.Helper()
		p := in("enqueue", file)
		if code := p.wait(); code != 0 {
			t.Fatalf("enqueue ended with %d", code)
		}
		return strings.TrimSpace(p.stdout.String())
	}
	good, hostile, moved := submit("good.yaml"), submit("evil.yaml"), submit("far.yaml")
	ctx := t.Context()
	if err := client.HSet(ctx, "ef:{"+hostile+"}:record", "sink_url", "postgres://ann@"+evil+"/evals").Err(); err != nil {
		t.Fatal(err)
	}
	const far = "../../../far"
	for _, key := range []string{"record", "plan", "documents", "counts", "cursors"} {
		if err := client.Copy(ctx, "ef:{"+moved+"}:"+key, "ef:{"+far+"}:"+key, 0, true).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.SAdd(ctx, "ef:evaluations", far).Err(); err != nil {
		t.Fatal(err)
	}

	for _, args := range [][]string{{"status"}, {"status", hostile}, {"limits"}, {"show", "0.0", hostile}, {"retry", hostile, "--class", "timeout"}} {
		in(args...).wait()
	}
	if p := in("report", hostile); p.wait() != int(exitUsage) || !strings.Contains(p.stderr.String(), "--"+allowSinkFlag) {
		t.Errorf("report on an evaluation of a foreign store says:\n%s", p.stderr.String())
	}
	p := in("collect")
	if code := p.wait(); code == 0 || !strings.Contains(p.stderr.String(), evil) || !strings.Contains(p.stderr.String(), far) {
		t.Errorf("collect ended with %d, want an error about both", code)
	}
	if _, err := os.Stat(filepath.Join(dir, outdir.Root, "good-"+good, outdir.ResultsFile)); err != nil {
		t.Errorf("the good evaluation is not collected beside the hostile ones: %v", err)
	}
	controller := in("controller", "--listen", "off")
	testrun.Eventually(t, "the controller leaves the hostile evaluation alone", func() bool {
		return strings.Contains(controller.stderr.String(), "cannot drain results") && strings.Contains(controller.stderr.String(), evil)
	})
	if found, err := os.ReadDir(top); err != nil || len(found) != 1 {
		t.Errorf("beside the working folder lies %v, %v", found, err)
	}
	folders, err := filepath.Glob(filepath.Join(dir, outdir.Root, "*far*"))
	if err != nil || len(folders) != 1 || folders[0] != filepath.Join(dir, outdir.Root, "far-"+moved) {
		t.Errorf("folders %v, %v; want that of the real evaluation", folders, err)
	}
	if n := met.Load(); n > 0 {
		t.Errorf("the stranger's server was called %d times", n)
	}
}

const pairOfDocuments = "documents: [docs/*.md]\njudges: [simulator:careful]\npairwise: {order: random}\n"

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
