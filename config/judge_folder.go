package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// judgeSettings is the file of a judge folder that maps names to models.
const judgeSettings = "settings.json"

// JudgeFolder is the questions about the answers of an experiment, and the judges.
type JudgeFolder struct {
	dir       string
	judges    []folderJudge
	templates []folderTemplate
}

type folderJudge struct {
	name     string
	settings []member // its api, model_name, parameters and what else goes into its lines
}

type folderTemplate struct {
	name  string
	parts []templatePart
}

// LoadJudgeFolder reads settings.json and the templates of a folder, and checks the models. Its
// error is of type Problems.
func LoadJudgeFolder(dir string, templates, judges []string, o Options) (*JudgeFolder, error) {
	path := filepath.Join(dir, judgeSettings)
	x, err := newExperiment(path, "judge", o)
	if err != nil {
		return nil, err
	}
	f := &JudgeFolder{dir: dir}
	for _, name := range listed(templates) {
		f.template(x, name)
	}
	text, ok := x.readText(path, maxSettings)
	if !ok {
		return nil, x.err()
	}
	j := jsonText{findings: &x.findings, file: path, text: text}
	members, ok := j.object(`for example {"gpt-4o": {"api": "openai", "model_name": "gpt-4o", "parameters": {"temperature": 0}}}`)
	if !ok {
		return nil, x.err()
	}
	for _, name := range listed(judges) {
		f.judge(x, j, name, members)
	}
	x.checkSenders()
	if err := x.err(); err != nil {
		return nil, err
	}
	return f, nil
}

// listed are names with commas between them, each once.
func listed(words []string) []string {
	var all []string
	for _, word := range words {
		for name := range strings.SplitSeq(strings.ReplaceAll(word, " ", ""), ",") {
			if name != "" && !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// judge takes one of the judges in that settings.json names.
func (f *JudgeFolder) judge(x *experiment, j jsonText, name string, members []member) {
	var names []string
	for _, m := range members {
		names = append(names, m.key)
	}
	i := slices.Index(names, name)
	if i < 0 {
		x.refuse(place{file: j.file}, didYouMean(name, names), "no judge is called %s", printable(name))
		return
	}
	at := j.place(members[i].at, name)
	if members[i].value[0] != '{' {
		x.refuse(at, "want an object with api, model_name and parameters", "got %s", printable(string(members[i].value)))
		return
	}
	settings := membersOf(members[i].value, members[i].from)
	l := experimentLine{at: at, values: j.values(settings, name+".")}
	if _, ok := l.values["prompt"]; !ok {
		l.values["prompt"] = placedValue{raw: json.RawMessage(`""`)}
	}
	if _, ok := l.values["parameters"]; !ok {
		x.missing(l, "parameters", "{}")
	}
	l.text = `{"prompt": ""}`
	x.add(l)
	f.judges = append(f.judges, folderJudge{name, settings})
}

// template takes one of the folder's templates in.
func (f *JudgeFolder) template(x *experiment, name string) {
	path := filepath.Join(f.dir, name)
	if filepath.Ext(name) != ".txt" || !filepath.IsLocal(name) {
		x.refuse(place{file: path}, "name a file of the folder that ends so", "a template's name ends with .txt")
		return
	}
	if text, ok := x.readText(path, maxText); ok {
		called, _, _ := strings.Cut(name, ".")
		f.templates = append(f.templates, folderTemplate{called, x.templateParts(path, string(text))})
	}
}

// Experiment asks every judge, by every template, about every answer of an experiment
// called name: of the lines of its completed file, in their order, that have one.
// failed is how many have none.
func (f *JudgeFolder) Experiment(name, completed string, o Options) (s *Submission, failed int, err error) {
	x, err := newExperiment(completed, "judge-"+name, o)
	if err != nil {
		return nil, 0, err
	}
	x.judging = true
	answers, failed := x.completed(completed)
	line := 0
	for _, judge := range f.judges {
		for _, template := range f.templates {
			for _, answer := range answers {
				line++
				x.addJSON(place{file: completed, line: line}, judgeLine(judge, template, answer))
			}
		}
	}
	if len(answers) == 0 && len(x.problems) == 0 {
		x.refuse(x.top, "", "no answer is there to judge: %d failed", failed)
	}
	s, err = x.finish()
	return s, failed, err
}

// completed reads the lines of an experiment's completed file that have an answer.
func (x *experiment) completed(path string) (answers [][]member, failed int) {
	x.writtenLines(path, func(at place, line []byte) {
		_, members, ok := x.writtenLine(at, line)
		switch {
		case !ok:
		case !isNull(valueOf(members, "error")):
			failed++
		default:
			answers = append(answers, members)
		}
	})
	return answers, failed
}

func valueOf(members []member, key string) json.RawMessage {
	for _, m := range members {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// judgeLine is the line that asks a judge about one answer.
func judgeLine(judge folderJudge, template folderTemplate, answer []member) []byte {
	id := pythonString(cmpRaw(valueOf(answer, "id"), `"NA"`))
	question := template.fill(map[string]string{
		inputPrompt:    pythonString(cmpRaw(valueOf(answer, "prompt"), `""`)),
		outputResponse: pythonString(cmpRaw(valueOf(answer, "response"), `""`)),
	})
	all := []member{
		{key: "id", value: encodeJSON(fmt.Sprintf("judge-%s-%s-%s", judge.name, template.name, id))},
		{key: "template_name", value: encodeJSON(template.name)},
		{key: "prompt", value: encodeJSON(question)},
	}
	for _, m := range judge.settings {
		all = set(all, m.key, m.value)
	}
	for _, m := range answer {
		all = set(all, "input-"+m.key, m.value)
	}
	var line object
	for _, m := range all {
		line.add(m.key, m.value)
	}
	return []byte(line.text())
}

func cmpRaw(raw json.RawMessage, otherwise string) json.RawMessage {
	return json.RawMessage(cmp.Or(string(raw), otherwise))
}

// set replaces the value of a key, or adds it at the end.
func set(all []member, key string, value json.RawMessage) []member {
	if i := slices.IndexFunc(all, func(m member) bool { return m.key == key }); i >= 0 {
		all[i].value = value
		return all
	}
	return append(all, member{key: key, value: value})
}
