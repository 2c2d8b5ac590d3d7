package commandline

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// testApp has commands with every kind of flag.
func testApp() App {
	common := []cli.Flag{&cli.StringFlag{Name: "redis"}, &cli.StringFlag{Name: "out-dir"}, &cli.StringFlag{Name: "log-level"}}
	run := &cli.Command{Name: "run", Aliases: []string{"r"}, Flags: []cli.Flag{
		&cli.BoolFlag{Name: "wait"},
		&cli.BoolFlag{Name: "retry-failed", Aliases: []string{"rf"}},
		&cli.IntFlag{Name: "limit"},
		&cli.IntFlag{Name: "max-queries", Aliases: []string{"m", "mq"}},
		&cli.DurationFlag{Name: "grace"},
		&cli.Float64Flag{Name: "share"},
		&cli.StringSliceFlag{Name: "judge", Aliases: []string{"j"}},
		OptionalInt{&cli.IntFlag{Name: "dry-run", Aliases: []string{"n"}}, "3"},
	}}
	worker := &cli.Command{Name: "worker", Flags: []cli.Flag{&cli.IntFlag{Name: "slots"}}}
	for _, command := range []*cli.Command{run, worker} {
		command.Flags = append(command.Flags, common...)
	}
	return App{
		Commands: []*cli.Command{run, worker}, Common: common,
		Elsewhere: map[string]string{"run-pairwise": "evalfleet run FOLDER compares the documents of a folder in pairs"},
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		want string // canonical, without the program's name; or the error
	}{
		{"run f.yaml", "run -- f.yaml"},
		{"run f.yaml --limit 5", "run --limit=5 -- f.yaml"},
		{"run --limit 5 f.yaml", "run --limit=5 -- f.yaml"},
		{"run f.yaml --limit=5 --wait", "run --limit=5 --wait=true -- f.yaml"},
		{"run --wait f.yaml", "run --wait=true -- f.yaml"},
		{"run --wait=false f.yaml", "run --wait=false -- f.yaml"},
		{"run --limit -5 f.yaml", "run --limit=-5 -- f.yaml"},
		{"run --out-dir a=b f.yaml", "run --out-dir=a=b -- f.yaml"},
		{"run --out-dir=a=b f.yaml", "run --out-dir=a=b -- f.yaml"},
		{"run --out-dir= f.yaml", "run --out-dir= -- f.yaml"},
		{"run -mq 10 f.yaml -rf", "run --max-queries=10 --retry-failed=true -- f.yaml"},
		{"run -m 10 -mq=11 --mq 12", "run --max-queries=10 --max-queries=11 --max-queries=12 --"},
		{"run -j a:b -j c:d dir", "run --judge=a:b --judge=c:d -- dir"},
		{"run -limit 5 f.yaml", "run --limit=5 -- f.yaml"},
		{"--redis redis://h --wait run f.yaml", "run --redis=redis://h --wait=true -- f.yaml"},
		{"--limit 5 r f.yaml", "run --limit=5 -- f.yaml"},
		{"run -- -f.yaml --limit", "run -- -f.yaml --limit"},
		{"run a -- b -- c", "run -- a b -- c"},
		{"run -", "run -- -"},
		{"run run", "run -- run"},
		{"worker --slots 5", "worker --slots=5 --"},
		{"run --dry-run f.yaml", "run --dry-run=3 -- f.yaml"},
		{"run --dry-run 5 f.yaml", "run --dry-run=5 -- f.yaml"},
		{"run --dry-run=5 f.yaml", "run --dry-run=5 -- f.yaml"},
		{"run f.yaml --dry-run", "run --dry-run=3 -- f.yaml"},
		{"run f.yaml -n 5", "run --dry-run=5 -- f.yaml"},
		{"run --dry-run --wait f.yaml", "run --dry-run=3 --wait=true -- f.yaml"},
		{"run --dry-run -- 5", "run --dry-run=3 -- 5"},
		{"--dry-run run f.yaml", "run --dry-run=3 -- f.yaml"},
		{"--dry-run 5 run f.yaml", "run --dry-run=5 -- f.yaml"},

		{"worker --limit 5", "unknown flag --limit; put arguments that start with a dash after --"},
		{"worker --slot 5", "unknown flag --slot; did you mean --slots?"},
		{"run f.yaml -5", "unknown flag -5; put arguments that start with a dash after --"},
		{"run --limit", "flag --limit needs a value: --limit=…"},
		{"run -mq --wait", "flag -mq needs a value: -mq=…"},
		{"ru f.yaml", "unknown command ru; evalfleet --help lists all"},
		{"rum f.yaml", "unknown command rum; did you mean run?"},
		{"worke", "unknown command worke; did you mean worker?"},
		{"run-pairwise docs --judge a:b", "unknown command run-pairwise; evalfleet run FOLDER compares the documents of a folder in pairs"},
		{"--slots 5", "unknown flag --slots; put arguments that start with a dash after --"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			line, err := testApp().Parse(strings.Fields(c.args))
			var got string
			if err != nil {
				got = err.Error()
			} else {
				got = strings.Join(line.Canonical()[1:], " ")
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// The library sees what parse made of the command line.
func TestLibraryTakesWhatParseMakes(t *testing.T) {
	t.Parallel()
	all := testApp()
	line, err := all.Parse([]string{"dir", "--retry-failed=false", "--mq", "7", "-j", "a:b", "--redis", "u", "run", "-j=c:d", "--", "-x"})
	if err == nil {
		t.Fatalf("dir is no command: got %+v", line)
	}
	line, err = all.Parse([]string{"run", "dir", "--retry-failed=false", "--mq", "7", "-j", "a:b", "--redis", "u", "-j=c:d", "--", "-x"})
	if err != nil {
		t.Fatal(err)
	}
	env := func(name string) (string, bool) {
		value, ok := map[string]string{"EVALFLEET_LIMIT": "3", "EVALFLEET_MAX_QUERIES": "9", "EVALFLEET_WAIT": "true"}[name]
		return value, ok
	}
	if err := line.Complete(env); err != nil {
		t.Fatal(err)
	}
	ran := false
	line.Command.Action = func(c *cli.Context) error {
		ran = true
		if c.Int("limit") != 3 || c.Int("max-queries") != 7 || c.Int("m") != 7 || !c.Bool("wait") || c.Bool("retry-failed") || !c.IsSet("retry-failed") || c.String("redis") != "u" {
			t.Errorf("got limit %d, max-queries %d, wait %v, retry-failed %v, redis %q", c.Int("limit"), c.Int("max-queries"), c.Bool("wait"), c.Bool("retry-failed"), c.String("redis"))
		}
		if got := c.StringSlice("judge"); !slices.Equal(got, []string{"a:b", "c:d"}) {
			t.Errorf("judges: got %q, want both", got)
		}
		if got := c.Args().Slice(); !slices.Equal(got, []string{"dir", "-x"}) {
			t.Errorf("arguments: got %q, want dir and -x", got)
		}
		return nil
	}
	app := &cli.App{Name: "evalfleet", Commands: []*cli.Command{line.Command}, HideHelp: true}
	if err := app.Run(line.Canonical()); err != nil || !ran {
		t.Errorf("library: ran %v, error %v", ran, err)
	}
}

func TestCompleteReportsWhereAValueCameFrom(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"EVALFLEET_LIMIT": "many", "EVALFLEET_GRACE": "5", "EVALFLEET_SHARE": "half", "EVALFLEET_WAIT": "perhaps",
		"EVALFLEET_REDIS": "", "REDIS_URL": "redis://h",
	}
	line, err := testApp().Parse([]string{"run", "-mq", "x"})
	if err != nil {
		t.Fatal(err)
	}
	err = line.Complete(func(name string) (string, bool) { value, ok := env[name]; return value, ok })
	want := strings.Join([]string{
		`-mq: got "x", want a whole number`,
		`EVALFLEET_WAIT: got "perhaps", want true or false`,
		`EVALFLEET_LIMIT: got "many", want a whole number`,
		`EVALFLEET_GRACE: got "5", want a time with its unit, for example 30s`,
		`EVALFLEET_SHARE: got "half", want a number`,
	}, "\n")
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if !slices.Contains(line.Canonical(), "--redis=redis://h") {
		t.Errorf("got %q, want the Redis of REDIS_URL", line.Canonical())
	}
}

// However arguments are mixed, none is lost, and what parse makes of them it
// takes unchanged.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"run\x00f\x00--limit\x005", "--redis\x00x\x00run\x00--\x00-y", "-mq=\x00run\x00-", "help\x00run", "run\x00--dry-run\x00f", "--dry-run\x00-1\x00run", "run\x00---x", "-h", "--version", "--\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, joined string) {
		args := strings.Split(joined, "\x00")
		line, err := testApp().Parse(args)
		if err != nil || line.Command == nil || line.Help {
			return
		}
		canonical := line.Canonical()
		again, err := testApp().Parse(canonical[1:])
		if err != nil || !slices.Equal(again.Canonical(), canonical) {
			t.Errorf("%q became %q, then %q (%v)", args, canonical, again.Canonical(), err)
		}
		taken := 1 + len(line.args) // the command, arguments, flags with their values, "--"
		for _, s := range line.flags {
			taken++
			if TakesValue(s.flag) && !slices.ContainsFunc(args, func(a string) bool { return a == s.from+"="+s.value }) {
				taken++
			}
		}
		if slices.Contains(args, "--") {
			taken++
		}
		if taken < len(args) {
			t.Errorf("%q became %q: %d of %d arguments are left", args, canonical, taken, len(args))
		}
	})
}
