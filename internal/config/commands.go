package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/check"
)

// command reads the program of a check and its arguments. It refuses them unless the caller runs them.
func (s *draft) command(y *yamlFile, v value) string {
	words := y.words(v, "[python3, check.py]")
	if !s.options.RunsCommands {
		s.refuse(v.key, "submit the file where it is, with `evalfleet enqueue` and the fleet's --redis, or `evalfleet run`",
			"a server runs no command of a file that it receives")
	}

	raw, err := json.Marshal(words)
	if err != nil {
		y.refuse(v.place, "", "%s", err)
	}
	return string(raw)
}

// words reads a program and its arguments, such as those of the example.
func (y *yamlFile) words(v value, example string) (words []string) {
	y.list(v, func(v value) {
		word := y.text(v)
		if strings.ContainsRune(word, 0) {
			y.refuse(v.place, "remove it", "an argument contains a NUL byte")
		}
		words = append(words, word)
	})
	if isEmptyList(v.node) {
		y.refuse(v.place, "for example "+example, "there is no command")
	}
	if len(words) > 0 && strings.TrimSpace(words[0]) == "" {
		y.refuse(v.place, "for example "+example, "the command has no program")
	}
	return words
}

// filesOfCommand returns the names of the files in the evaluation's folder that a command names, each with the hash of
// its content: a program that was changed makes another check. Other checks have none.
func (s *draft) filesOfCommand(c eval.Check) (names []string) {
	if c.Kind != eval.CheckCommand {
		return nil
	}
	for _, word := range check.Command(c, eval.Item{}) {
		path := filepath.Join(s.dir, word)
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || filepath.IsAbs(word) || !isBelow(realPath(s.dir), realPath(path)) {
			continue
		}
		if hash, err := hashOf(path); err == nil {
			names = append(names, word, hash)
		}
	}
	return names
}

// hashOf returns the hash of a file's content.
func hashOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// Command is a program that has to be run on a text before an evaluation is submitted, because a check says so.
type Command struct {
	Check eval.Check
	Words []string // the program and its arguments
	Text  string   // for its standard input

	check     int
	documents []int // with that text, and the same arguments
}

// Commands returns what the checks of an evaluation run, once for each distinct text and list of arguments.
func (s *Submission) Commands() []*Command {
	var all []*Command
	type key struct {
		check       int
		hash, words string
	}
	known := map[key]*Command{}
	for k, c := range s.Evaluation.Checks {
		if c.Kind != eval.CheckCommand {
			continue
		}
		for i, d := range s.Evaluation.Documents {
			words := check.Command(c, s.Evaluation.Items[d.Item])
			of := key{k, d.Hash, strings.Join(words, "\x00")}
			if known[of] == nil {
				known[of] = &Command{Check: c, Words: words, Text: d.Readable(s.Texts[d.Hash]), check: k}
				all = append(all, known[of])
			}
			known[of].documents = append(known[of].documents, i)
		}
	}
	return all
}

// Fail notes that a command refused its text, and what it said.
func (s *Submission) Fail(c *Command, said string) {
	for _, i := range c.documents {
		s.fail(i, eval.FailedCheck{Check: c.check, Why: check.Reason(said)})
	}
}

// FailAs notes the outcomes of commands that an earlier submission of the same evaluation has stored.
func (s *Submission) FailAs(stored *eval.Evaluation) {
	for i, d := range stored.Documents {
		for _, failed := range d.Failed {
			if failed.Check < len(s.Evaluation.Checks) && s.Evaluation.Checks[failed.Check].Kind == eval.CheckCommand {
				s.fail(i, failed)
			}
		}
	}
}

// fail adds a failed check to a document. Its checks stay in order.
func (s *Submission) fail(document int, failed eval.FailedCheck) {
	d := &s.Evaluation.Documents[document]
	d.Failed = append(d.Failed, failed)
	slices.SortFunc(d.Failed, func(a, b eval.FailedCheck) int { return cmp.Compare(a.Check, b.Check) })
}
