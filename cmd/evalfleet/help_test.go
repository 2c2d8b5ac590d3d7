package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/cli/commandline"
)

func TestFlagsInHelp(t *testing.T) {
	t.Parallel()
	command := &cli.Command{Name: "try", Flags: []cli.Flag{
		&cli.BoolFlag{Name: "short", Usage: "do it"},
		&cli.IntFlag{Name: "much", Aliases: []string{"m", "mq"}, Value: 7, Usage: "`N` " + strings.Repeat("words ", 20) + "end"},
		&cli.StringFlag{Name: "much-longer-than-the-column", Usage: "`FILE` of it"},
	}}
	var out strings.Builder
	if err := (commandline.App{}).WriteCommandHelp(&out, command, true); err != nil {
		t.Fatal(err)
	}
	_, flags, _ := strings.Cut(out.String(), "Flags:\n")
	flags, _, _ = strings.Cut(flags, "\n\n")
	want := `  --short                       do it
  --much N, -m N, --mq N        N words words words words words words words words words words words
                                words words words words words words words words words end (default
                                7)
  --much-longer-than-the-column FILE
                                FILE of it`
	if diff := cmp.Diff(want, flags); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestHelpIsShort: --help of each command has its common flags and two examples that can be
// run in 40 lines; --help-all has every flag once.
func TestHelpIsShort(t *testing.T) {
	t.Parallel()
	app := appOf(&process{})
	all := app.Commands
	used := map[string]bool{}
	for _, command := range all {
		var short, whole strings.Builder
		if err := app.WriteCommandHelp(&short, command, false); err != nil {
			t.Fatal(err)
		}
		if err := app.WriteCommandHelp(&whole, command, true); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(short.String(), "\n"); n > commandline.HelpLines {
			t.Errorf("%s --help has %d lines, want at most %d", command.Name, n, commandline.HelpLines)
		}
		for _, f := range command.Flags {
			if slices.ContainsFunc(flagGroups, func(g commandline.Group) bool { return slices.Contains(g.Flags, f.Names()[0]) }) {
				continue
			}
			if !strings.Contains(short.String(), "\n  "+commandline.Names(f)) {
				t.Errorf("%s --help lacks %s, which is common", command.Name, commandline.Names(f))
			}
		}
		left := strings.Count(short.String(), "\n  --") < len(command.Flags)
		if left != strings.Contains(short.String(), "More flags with --help-all: ") {
			t.Errorf("%s --help leaves flags out: %t; it says:\n%s", command.Name, left, &short)
		}
		for _, f := range command.Flags {
			used[f.Names()[0]] = true
			if n := strings.Count(whole.String(), "\n  "+commandline.Names(f)+" ") + strings.Count(whole.String(), "\n  "+commandline.Names(f)+"\n"); n != 1 {
				t.Errorf("%s --help-all has %s %d times, want once", command.Name, commandline.Names(f), n)
			}
		}
		if len(examples[command.Name]) != 2 {
			t.Errorf("%s has the examples %q, want two", command.Name, examples[command.Name])
		}
		for _, example := range examples[command.Name] {
			words, _, _ := strings.Cut(example, " > ")
			line, err := app.Parse(strings.Fields(strings.ReplaceAll(words, "'", ""))[1:])
			if err != nil || line.Command == nil || line.Command.Name != command.Name {
				t.Errorf("%s: %v; want a line of %s", example, err, command.Name)
			}
		}
	}
	for _, group := range flagGroups {
		for _, name := range group.Flags {
			if !used[name] {
				t.Errorf("group %s has --%s, which no command has", group.Title, name)
			}
		}
	}
	if len(examples) != len(all) {
		t.Errorf("%d commands have examples, want %d", len(examples), len(all))
	}
}

func TestManualPages(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man1")
	if code, _, stderr := evalfleet(t, nil, "man", dir); code != 0 {
		t.Fatalf("man ended with %d: %s", code, stderr)
	}
	app := appOf(&process{})
	all := app.Commands
	written, err := os.ReadDir(dir)
	if err != nil || len(written) != len(all)+1 {
		t.Errorf("got %d pages, %v; want %d", len(written), err, len(all)+1)
	}
	for _, command := range all {
		raw, err := os.ReadFile(filepath.Join(dir, "evalfleet-"+command.Name+".1"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range command.Flags {
			if !strings.Contains(string(raw), "\n.B "+strings.ReplaceAll(commandline.Names(f), "-", `\-`)+"\n") {
				t.Errorf("the page of %s lacks %s", command.Name, commandline.Names(f))
			}
		}
		for line := range strings.Lines(string(raw)) {
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !slices.Contains([]string{".TH", ".SH", ".TP", ".B", ".BR", ".nf", ".fi"}, strings.Fields(line)[0]) {
				t.Errorf("the page of %s has the instruction %q", command.Name, line)
			}
		}
	}
}

func TestCandidates(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		words string // separated by |
		want  []string
	}{
		{"re", []string{"resume", "retry", "report"}},
		{"--redis|redis://x|sta", []string{"status"}},
		{"run|--json", []string{"--json-mode"}},
		{"run|f.yaml|--help", []string{"--help", "--help-all"}},
		{"run|--judge|", nil},
		{"run|--judge|--ou", nil}, // it is the judge
		{"run|--judge=a:b|--out-", []string{"--out-dir"}},
		{"run|-j|a:b|--out-", []string{"--out-dir"}},
		{"run|", nil},
		{"run|--|--out-", nil},
		{"runn|--out-", nil},
		{"--redis-s", []string{"--redis-server-name"}},
		{"schema|", []string{"evaluation", "fleet"}},
		{"completion|f", []string{"fish"}},
		{`completion|""`, shells},
	} {
		var got []string
		for _, c := range appOf(&process{}).Candidates(strings.Split(test.words, "|")) {
			got = append(got, c.Word)
			if c.About == "" || strings.ContainsAny(c.About, "\t\n") {
				t.Errorf("%s is described by %q", c.Word, c.About)
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.words, diff)
		}
	}
}

// TestCompletionInShells sources each script in its shell, where that is installed, and has
// it complete a command and a flag.
func TestCompletionInShells(t *testing.T) {
	t.Parallel()
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for shell, test := range map[string]struct{ script, want string }{
		"bash": {`source <(evalfleet completion bash)
COMP_WORDS=(evalfleet enq); COMP_CWORD=1; _evalfleet; echo "${COMPREPLY[@]}"
COMP_WORDS=(evalfleet run --json- later); COMP_CWORD=2; _evalfleet; echo "${COMPREPLY[@]}"`, "enqueue\n--json-mode\n"},
		"zsh": {`compdef() { echo "compdef $@" }
_describe() { print -l -- "${(@)candidates}" }
_files() { echo files }
source <(evalfleet completion zsh)
words=(evalfleet enq); CURRENT=2; _evalfleet
words=(evalfleet run --json- later); CURRENT=3; _evalfleet
words=(evalfleet run ""); CURRENT=3; _evalfleet`, "compdef _evalfleet evalfleet\nenqueue:"},
		"fish": {`evalfleet completion fish | source
complete -C "evalfleet enq"
complete -C "evalfleet run --json-"`, "enqueue\t"},
	} {
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		tried++
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			command := exec.CommandContext(t.Context(), path, "-c", test.script)
			home := t.TempDir()
			command.Env = []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "PATH=" + filepath.Dir(program) + string(os.PathListSeparator) + os.Getenv("PATH")}
			out, err := command.CombinedOutput()
			if err != nil || !strings.HasPrefix(string(out), test.want) || !strings.Contains(string(out), "--json-mode") {
				t.Errorf("got %v and\n%s\nwant it to begin with\n%s", err, out, test.want)
			}
		})
	}
	if tried == 0 {
		t.Skip("without a shell that has a completion script")
	}
}
