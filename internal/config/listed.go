package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/evalfleet/evalfleet/providers/catalog"
)

// Flags that list runs, or set something for listed runs.
const (
	runsConfigFlag = "--runs-config"
	runsStdinFlag  = "--runs-stdin"
	pairFlag       = "--file-a"
)

// flags returns the flags that listed runs.
func (l Listed) flags() []string {
	var used []string
	if l.File != "" {
		used = append(used, runsConfigFlag)
	}
	if l.JSON != nil {
		used = append(used, runsStdinFlag)
	}
	if l.FileA != "" || l.FileB != "" || l.Out != "" {
		used = append(used, pairFlag)
	}
	return used
}

// loadRuns makes an evaluation of the runs in Options.Listed, without an evaluation file. Paths are
// relative to the file of Listed.File, else to the working folder. Its error is of type Problems.
func loadRuns(o Options) (*Submission, error) {
	if used := o.Listed.flags(); len(used) == 1 && used[0] == runsConfigFlag {
		file := o.Listed.File
		o.Listed = Listed{}
		return loadEvaluation(file, o)
	}
	name := "runs"
	if pair := o.Listed.FileB; pair != "" {
		name = stem(pair)
	}
	s, err := newDraft("", ".", name, o)
	if err != nil {
		return nil, err
	}
	s.listed(nil, nil, nil)
	return s.finish()
}

// listed reads the listed runs, if any: from the evaluation file's list or its block of a
// single run (nil: it has none), or from flags. A pair of files named by flags replaces the
// file's single run. It reports whether any runs were listed.
func (s *draft) listed(y *yamlFile, list, single *value) bool {
	asked := asks{provider: catalog.Canonical(s.options.Provider), model: s.options.Model,
		providerAt: place{path: "--provider"}, modelAt: place{path: "--model"}}
	named := append(asked.places(), s.asks.places()...)
	s.asks = asked.over(s.asks).over(s.fleet.asks)

	used := s.options.Listed.flags()
	if len(used) > 1 {
		s.refuse(place{path: used[1]}, "use one of them", "%s also lists runs", used[0])
		return true
	}
	flag := strings.Join(used, "")
	if list != nil && isEmptyList(list.node) && (single != nil || flag != "") {
		list = nil // an empty list is like none, so the single run is asked
	}
	if list != nil && single != nil {
		s.refuse(single.key, "remove one of them", "line %d already has a list of runs", list.key.line)
		return true
	}
	for _, other := range []*value{list, single} {
		if other != nil && flag != "" && (flag != pairFlag || other != single) {
			s.refuse(other.key, "remove one of them", "%s also lists runs", flag)
			return true
		}
	}
	switch {
	case flag == runsConfigFlag:
		s.runsConfig(s.options.Listed.File)
	case flag == runsStdinFlag:
		s.runsJSON(s.options.Listed.JSON)
	case flag == pairFlag:
		s.pair(s.options.Listed)
	case list != nil:
		s.listRuns(y.runs(*list), s.dir, false)
	case single != nil:
		s.listRuns([]writtenRun{y.singleRun(*single)}, s.dir, false)
	default:
		for _, at := range named {
			s.refuse(at, "remove it, or list runs", "it applies to listed runs, but there are none")
		}
		return false
	}
	return true
}

// runsConfig reads a list of runs from a separate file.
func (s *draft) runsConfig(path string) {
	y, root, ok := s.parse(path)
	if !ok {
		return
	}
	list := &root
	if !isList(root.node) {
		list = nil
		var named asks
		known := y.asksKeys(&named)
		known["runs"] = func(v value) { list = &v }
		y.mapping(root, known)
		s.asks = named.over(s.asks)
	}
	if list == nil {
		s.refuse(place{file: path}, "add runs: [{file_a: instructions.md, file_b: input.md}]", "no runs are listed")
		return
	}
	s.listRuns(y.runs(*list), filepath.Dir(path), false)
}

// stdin is the name of standard input in problems.
const stdin = "stdin"

// runsJSON reads a JSON array of runs. It parses it as YAML, which includes JSON and gives places.
func (s *draft) runsJSON(from io.Reader) {
	at := place{file: stdin}
	text, err := io.ReadAll(io.LimitReader(from, maxText+1))
	if err != nil {
		s.refuse(at, "", "%v", err)
		return
	}

	text = bytes.TrimPrefix(text, byteOrderMark)
	const fix = `want a JSON array of runs, for example [{"provider": "openai", "model": "gpt-5-mini", "file_a": "a.md", "file_b": "b.md"}]`
	var syntax *json.SyntaxError
	var runs []json.RawMessage
	switch err := json.Unmarshal(text, &runs); {
	case len(text) > maxText:
		s.refuse(at, "split them into several evaluations", "too large: at most %d bytes are read", maxText)
		return
	case len(bytes.TrimSpace(text)) == 0:
		s.refuse(at, fix, "standard input was empty")
		return
	case invalidUTF8(text) >= 0:
		s.refuse(at, "write it as UTF-8", "not UTF-8: byte %d is not part of a character", invalidUTF8(text))
		return
	case errors.As(err, &syntax):
		before := text[:min(int(syntax.Offset), len(text))]
		at.line = 1 + bytes.Count(before, []byte("\n"))
		at.column = max(len(before)-bytes.LastIndexByte(before, '\n')-1, 1)
		s.refuse(at, fix, "not JSON: %v", err)
		return
	case err != nil:
		s.refuse(at, fix, "got something else")
		return
	}

	if y, root, ok := parseYAML(stdin, text, &s.findings); ok {
		s.listRuns(y.runs(root), ".", true)
	}
}

// pair adds the run of two files that flags name. Its answer may be written anywhere.
func (s *draft) pair(l Listed) {
	r := writtenRun{
		id: "run1", fileA: l.FileA, fileB: l.FileB, out: filepath.ToSlash(l.Out), anywhere: true,
		at: place{path: pairFlag}, idAt: place{path: pairFlag}, fileAAt: place{path: pairFlag},
		fileBAt: place{path: "--file-b"}, outAt: place{path: "--out"},
	}
	for _, missing := range []struct{ flag, value, what string }{
		{pairFlag, l.FileA, "the file of the instructions"}, {"--file-b", l.FileB, "the file of the input"},
	} {
		if missing.value == "" {
			s.refuse(place{path: missing.flag}, "add "+missing.flag+", "+missing.what, "it is missing")
			return
		}
	}
	s.listRuns([]writtenRun{r}, ".", true)
}
