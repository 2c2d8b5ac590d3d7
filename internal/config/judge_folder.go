package config

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval/foreign/prompto"
)

// judgeSettings is the file of a judge folder that maps names to models.
const judgeSettings = "settings.json"

// JudgeFolder holds the questions about the answers of an experiment, and the judges.
type JudgeFolder struct {
	dir       string
	judges    []folderJudge
	templates []prompto.Template
}

type folderJudge struct {
	name     string
	settings prompto.Line // its api, model_name, parameters and whatever else is part of its lines
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

// listed splits words at commas and returns each name once, in order.
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

// judge adds one of the judges that settings.json names.
func (f *JudgeFolder) judge(x *experiment, j jsonText, name string, members []member) {
	var names []string
	for _, m := range members {
		names = append(names, m.key)
	}
	i := slices.Index(names, name)
	if i < 0 {
		x.refuse(place{file: j.file}, didYouMean(name, names), "unknown judge %s", printable(name))
		return
	}

	at := j.place(members[i].at, name)
	if members[i].value[0] != '{' {
		x.refuse(at, "want an object with api, model_name and parameters", "got %s", printable(string(members[i].value)))
		return
	}
	l := experimentLine{at: at, values: j.values(membersOf(members[i].value, members[i].from), name+".")}
	if _, ok := l.values["prompt"]; !ok {
		l.values["prompt"] = placedValue{raw: json.RawMessage(`""`)}
	}
	if _, ok := l.values["parameters"]; !ok {
		x.missing(l, "parameters", "{}")
	}
	l.text = `{"prompt": ""}`
	x.add(l)
	settings, _ := prompto.ParseLine(string(members[i].value)) // it is part of a valid object
	f.judges = append(f.judges, folderJudge{name, settings})
}

// template adds one of the folder's templates.
func (f *JudgeFolder) template(x *experiment, name string) {
	path := filepath.Join(f.dir, name)
	if filepath.Ext(name) != ".txt" || !filepath.IsLocal(name) {
		x.refuse(place{file: path}, "name a .txt file of the folder", "the name of a template must end with .txt")
		return
	}
	text, ok := x.readText(path, maxText)
	if !ok {
		return
	}
	called, _, _ := strings.Cut(name, ".")
	template, problems := prompto.ParseTemplate(called, string(text))
	j := jsonText{file: path, text: text}
	for _, p := range problems {
		x.refuse(j.place(p.Offset, ""), p.Fix, "%s %s", p.Message, printable(p.Found))
	}
	f.templates = append(f.templates, template)
}

// Experiment makes an evaluation that asks every judge, with every template, about every answer of
// the experiment called name. completed is the path of its completed file, whose order it keeps.
// failed is the number of lines without an answer.
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
				asked := prompto.JudgeLine(judge.name, judge.settings, template, answer)
				x.addJSON(place{file: completed, line: line}, []byte(asked.String()))
			}
		}
	}
	if len(answers) == 0 && len(x.problems) == 0 {
		x.refuse(x.top, "", "there is no answer to judge: %d failed", failed)
	}
	s, err = x.finish()
	return s, failed, err
}

// completed reads the lines of an experiment's completed file that have an answer.
func (x *experiment) completed(path string) (answers []prompto.Line, failed int) {
	x.writtenLines(path, func(at place, line []byte) {
		if _, _, ok := x.writtenLine(at, line); !ok {
			return
		}
		answer, _ := prompto.ParseLine(string(line)) // no error: it was read before
		if !isNull(answer.Get("error")) {
			failed++
			return
		}
		answers = append(answers, answer)
	})
	return answers, failed
}
