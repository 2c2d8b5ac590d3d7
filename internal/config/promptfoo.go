package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/answers"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// promptfooTop matches the keys by which a configuration of promptfoo is recognised. An evaluation file has providers, too,
// but not as a list or a text.
var promptfooTop = struct{ prompts, providers, ours *regexp.Regexp }{
	prompts:   regexp.MustCompile(`(?m)^prompts[ \t]*:`),
	providers: regexp.MustCompile(`(?m)^(?:providers|targets)[ \t]*:[ \t]*(?:#.*)?(?:\r?\n(?:[ \t]*(?:#.*)?\r?\n)*[ \t]*-[ \t]|[^\s{&#])`),
	ours:      regexp.MustCompile(`(?m)^(?:models|items|judges|documents)[ \t]*:`),
}

// isPromptfoo reports whether a file with this beginning is a configuration of promptfoo.
func isPromptfoo(head []byte) bool {
	return promptfooTop.prompts.Match(head) && promptfooTop.providers.Match(head) && !promptfooTop.ours.Match(head)
}

// loadPromptfoo makes the evaluation that a configuration of promptfoo describes: its providers answer its prompts about
// its tests, and judges, each a provider:model, compare the answers. Its warnings name what was not taken. Its error is
// of type Problems.
func loadPromptfoo(path string, judges []string, o Options) (*Submission, error) {
	if len(judges) == 0 {
		return nil, Problems{{
			File: path, Line: 1, Message: "this is a configuration of promptfoo; the answers that it asks for need a judge",
			Fix: "name one, for example --judge openai:gpt-5-mini",
		}}
	}
	o.judges = judges
	return loadPrompted(path, o)
}

// promptfoo reads a configuration of promptfoo.
type promptfoo struct {
	*draft
	*prompted
	y        *yamlFile
	defaults map[string]any // variables of every test
	ids      map[string]place
	left     map[string]int   // how often something was not taken, by its name
	leftAt   map[string]place // the first of each
	budget   int
}

// promptfooFile reads prompts, providers and tests, and lists the prompts about each test.
func (s *draft) promptfooFile(y *yamlFile, root value) *prompted {
	f := &promptfoo{
		draft: s, prompted: &prompted{}, y: y, defaults: map[string]any{}, ids: map[string]place{}, left: map[string]int{},
		leftAt: map[string]place{}, budget: maxOverrides * maxOverrides,
	}
	var prompts, providers, tests *value
	y.entries(root, func(key string, v value) {
		switch key {
		case "prompts":
			prompts = &v
		case "providers", "targets":
			providers = &v
		case "tests":
			tests = &v
		case "defaultTest":
			f.defaultTest(v)
		case "description", "tags", "metadata": // they change nothing
		default:
			f.notTaken(key, v.key)
		}
	})

	f.at = prompts.key
	f.each(*prompts, f.prompt)
	f.each(*providers, f.provider)
	if s.asked.Judges == nil && len(s.problems) == 0 {
		s.refuse(providers.key, "add one such as openai:gpt-5-mini", "there is no provider that can be asked")
	}
	f.models = s.takeModels()
	if tests == nil {
		f.test(place{file: prompts.file, line: prompts.line}, "", nil)
	} else {
		f.each(*tests, f.tests)
	}

	for _, what := range slices.SortedFunc(maps.Keys(f.left), func(a, b string) int { return f.leftAt[a].line - f.leftAt[b].line }) {
		s.warn(f.leftAt[what], "", "not taken: %s", wording.Counted(f.left[what], what))
	}
	s.flagBudget()
	if len(s.problems) == 0 {
		s.cross(f.prompted)
	}
	return f.prompted
}

// notTaken counts what has no meaning here.
func (f *promptfoo) notTaken(what string, at place) {
	if f.left[what]++; f.left[what] == 1 {
		f.leftAt[what] = at
	}
}

// each reads a list, or its only element.
func (f *promptfoo) each(v value, read func(value)) {
	if isList(v.node) {
		f.y.list(v, read)
		return
	}
	read(v)
}

// defaultTest reads the variables that every test has.
func (f *promptfoo) defaultTest(v value) {
	if !isMapping(v.node) {
		f.notTaken("defaultTest", v.key)
		return
	}
	f.y.entries(v, func(key string, v value) {
		if key == "vars" {
			f.defaults = f.variables(v)
			return
		}
		f.notTaken(key, v.key)
	})
}

// prompt reads one prompt: a text, a file, or a block with either.
func (f *promptfoo) prompt(v value) {
	name, written := "", v
	if isMapping(v.node) {
		f.y.entries(v, func(key string, v value) {
			switch key {
			case "label":
				name = f.y.text(v)
			case "id", "raw":
				written = v
			default:
				f.notTaken(key+" of a prompt", v.key)
			}
		})
	}
	text := f.y.text(written)
	path, isFile := strings.CutPrefix(text, "file://")
	ending := strings.ToLower(filepath.Ext(path))
	if !isFile && (strings.ContainsAny(text, " \n{") || !slices.Contains([]string{".txt", ".md", ".json"}, ending)) {
		f.addPrompt(name, text, written.place)
		return
	}
	if !slices.Contains([]string{".txt", ".md", ".json"}, ending) || strings.ContainsAny(path, "*?") {
		f.notTaken("prompt in "+path, written.place)
		return
	}

	beside, ok := f.beside(written.place, path)
	if !ok {
		return
	}
	content, ok := f.textAt(written.place, beside, maxText)
	if !ok {
		return
	}
	parts := betweenPrompts.Split(strings.TrimRight(string(content), "\r\n"), -1)
	for i, part := range parts {
		if name == "" {
			name = stem(path)
		}
		one := name
		if len(parts) > 1 {
			one = fmt.Sprintf("%s %d", name, i+1)
		}
		f.addPrompt(one, strings.Trim(part, "\r\n"), written.place)
	}
}

// betweenPrompts matches the line between two prompts of a file.
var betweenPrompts = regexp.MustCompile(`(?m)^---[ \t]*\r?$`)

// addPrompt adds a prompt: a text, or messages of a system and a user as JSON.
func (f *promptfoo) addPrompt(name, text string, at place) {
	if name == "" {
		name = fmt.Sprintf("prompt %d", len(f.prompts)+1)
	}
	p := writtenPrompt{name: name, text: text, at: at}
	var messages []struct{ Role, Content string }
	if strings.HasPrefix(strings.TrimSpace(text), "[") && json.Unmarshal([]byte(text), &messages) == nil {
		last := len(messages) - 1
		switch {
		case last == 0 && messages[0].Role == "user":
			p.text = messages[0].Content
		case last == 1 && messages[0].Role == "system" && messages[1].Role == "user":
			p.system, p.text = messages[0].Content, messages[1].Content
		default:
			f.refuse(at, "write one message of the system and one of the user", "the prompt %q has other messages", name)
			return
		}
	}

	switch {
	case strings.Contains(text, "{%"):
		f.refuse(at, "write variables such as {{question}} only", "the prompt %q is a template with {%%", name)
	case strings.TrimSpace(p.text) == "":
		f.refuse(at, "", "the prompt %q is empty", name)
	case !nameable(name):
		f.unnameable(at, name, "cannot be the name of a prompt")
	case slices.ContainsFunc(f.prompts, func(other writtenPrompt) bool { return other.name == name }):
		f.refuse(at, "give each prompt its own label", "a second prompt is called %q", name)
	default:
		f.prompts = append(f.prompts, p)
	}
}

// promptfooSettings maps promptfoo's names of settings to ours.
var promptfooSettings = map[string]string{
	"temperature": "temperature", "max_tokens": "max_completion_tokens", "max_completion_tokens": "max_completion_tokens", "top_p": "top_p",
	"seed": "seed", "stop": "stop", "frequency_penalty": "frequency_penalty", "presence_penalty": "presence_penalty",
	"reasoning_effort": "reasoning_effort",
}

// provider reads one provider: its id, a block with an id, or its id as the key of a block.
func (f *promptfoo) provider(v value) {
	judge, id, at := eval.Judge{}, "", v.place
	block := func(key string, v value) {
		switch key {
		case "id":
			id, at = f.y.text(v), v.place
		case "label":
			judge.Name = f.y.text(v)
		case "config":
			f.config(v, &judge)
		default:
			f.notTaken(key+" of a provider", v.key)
		}
	}
	switch {
	case !isMapping(v.node):
		id = f.y.text(v)
	case f.y.has(v, "id"):
		f.y.entries(v, block)
	default:
		f.y.entries(v, func(key string, v value) {
			id, at = key, v.key
			f.y.entries(v, block)
		})
	}

	kind, rest, _ := strings.Cut(id, ":")
	if rest == "" || slices.Contains([]string{"file", "python", "exec", "http", "https", "webhook", "package", "golang",
		"ruby", "promptfoo"}, kind) {
		f.notTaken(fmt.Sprintf("provider %.60q", id), at)
		return
	}
	if ours := fromPromptfoo(kind, rest); ours != "" {
		id = ours
	}
	if f.setTarget(&judge, id, at) {
		f.asked.Judges, f.judgesAt = append(f.asked.Judges, judge), append(f.judgesAt, at)
	}
}

// config reads the settings of a provider.
func (f *promptfoo) config(v value, judge *eval.Judge) {
	f.y.entries(v, func(key string, v value) {
		ours, known := promptfooSettings[key]
		switch {
		case keyWords.MatchString(key):
			f.y.refuseKey(v.key)
		case known:
			if judge.Overrides == nil {
				judge.Overrides = map[string]any{}
			}
			judge.Overrides[ours] = f.y.free(v, &f.budget)
		default:
			f.notTaken(key+" of a provider", v.key)
		}
	})
}

// tests reads one test, or a file of them.
func (f *promptfoo) tests(v value) {
	if isMapping(v.node) {
		var vars map[string]any
		name := ""
		f.y.entries(v, func(key string, v value) {
			switch key {
			case "vars":
				vars = f.variables(v)
			case "description":
				name = f.y.text(v)
			case "metadata":
			default:
				f.notTaken(key, v.key)
			}
		})
		f.test(v.place, name, vars)
		return
	}

	path := strings.TrimPrefix(f.y.text(v), "file://")
	beside, ok := f.beside(v.place, path)
	if !ok {
		return
	}
	switch strings.ToLower(filepath.Ext(path)) {
	case ".csv", ".tsv", ".jsonl", ".json":
		f.rows(beside, answers.PlainItems, func(at place, row answers.Row) { f.row(at, row.Values) })
	case ".yaml", ".yml":
		if y, root, ok := f.parse(beside); ok {
			own := f.y
			f.y = y
			f.each(root, f.tests)
			f.y = own
		}
	default:
		f.notTaken("tests in "+path, v.place)
	}
}

// row reads a test from a row of a file. In promptfoo's tables, names that begin with __ are no variables.
func (f *promptfoo) row(at place, values map[string]any) {
	if vars, isTest := values["vars"].(map[string]any); isTest {
		for key := range values {
			if key != "vars" && key != "description" && key != "metadata" {
				f.notTaken(key, at)
			}
		}
		name, _ := values["description"].(string)
		f.test(at, name, vars)
		return
	}
	name, _ := values["__description"].(string)
	vars := map[string]any{}
	for key, value := range values {
		switch {
		case !strings.HasPrefix(key, "__"):
			vars[key] = value
		case key != "__description" && value != nil:
			f.notTaken("column "+key, at)
		}
	}
	f.test(at, name, vars)
}

// variables reads the variables of a test. A variable in a file has the file's text.
func (f *promptfoo) variables(v value) map[string]any {
	if !isMapping(v.node) {
		f.notTaken("vars in a file", v.key)
		return nil
	}

	vars := map[string]any{}
	f.y.entries(v, func(key string, v value) {
		if isList(v.node) {
			f.refuse(v.place, "write one test for each value", "%s has several values", key)
			return
		}
		vars[key] = f.y.free(v, &f.budget)
		text, _ := vars[key].(string)
		path, isFile := strings.CutPrefix(text, "file://")
		if !isFile {
			return
		}
		if beside, ok := f.beside(v.place, path); ok {
			if content, ok := f.textAt(v.place, beside, maxText); ok {
				vars[key] = strings.TrimRight(string(content), "\r\n")
			}
		}
	})

	return vars
}

// test adds a test as an item. Its description, if no other test has it, or else its number is the item's id.
func (f *promptfoo) test(at place, name string, vars map[string]any) {
	values := maps.Clone(f.defaults)
	maps.Copy(values, vars)
	item, ok := f.promptItem(at, answers.PlainItems, answers.NewReader(answers.PlainItems, "", nameable), answers.Row{Values: values})
	if !ok {
		return
	}
	if _, twice := f.ids[name]; twice || name == "" || !nameable(name) {
		name = fmt.Sprintf("test %d", len(f.items)+1)
	}
	f.ids[name], item.id = at, name
	f.items = append(f.items, item)
}
