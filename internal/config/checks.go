package config

import (
	"cmp"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/check"
)

// maxChecks bounds the checks of an evaluation: each is applied to every text.
const maxChecks = 50

// checks reads the checks of texts. Items must be known.
func (s *draft) checks(y *yamlFile, v value) {
	seen := map[string]place{}
	y.list(v, func(v value) {
		c, test, ok := s.check(y, v)
		if !ok {
			return
		}
		if before, twice := seen[c.Name]; twice {
			s.refuse(v.place, "give each check its own name: {name: …}",
				"a second check called %s, the first is in line %d", c.Name, before.line)
			return
		}
		seen[c.Name] = v.place
		s.asked.Checks, s.tests = append(s.asked.Checks, c), append(s.tests, test)
	})

	if isEmptyList(v.node) {
		s.refuse(v.place, "for example [{max_words: 100}]", "there are no checks")
	}
	if n := len(s.asked.Checks); n > maxChecks {
		s.refuse(v.key, "", "there are %d checks: at most %d are allowed", n, maxChecks)
	}
}

// check reads one check, such as {max_words: 60, gate: true}, and compiles it.
func (s *draft) check(y *yamlFile, v value) (c eval.Check, test check.Test, ok bool) {
	before := len(s.problems)
	var at, gate value
	of := func(kind eval.CheckKind) func(value) {
		return func(v value) {
			if c.Kind != "" {
				y.refuse(v.key, "make it a check of its own", "the check has %s, too", c.Kind)
				return
			}
			c.Kind, at = kind, v
			c.Value = s.checkValue(y, v, kind)
		}
	}

	y.mapping(v, keys{
		"name":         func(v value) { c.Name = y.called(v) },
		"gate":         func(v value) { c.Gate, gate = y.boolean(v), v },
		"contains":     of(eval.CheckContains),
		"not_contains": of(eval.CheckNotContains),
		"equals":       of(eval.CheckEquals),
		"regex":        of(eval.CheckRegex),
		"max_words":    of(eval.CheckMaxWords),
		"json_schema":  of(eval.CheckJSONSchema),
		"command":      of(eval.CheckCommand),
	})
	if c.Kind == "" && len(s.problems) == before {
		s.refuse(v.place, "want one of contains, not_contains, equals, regex, max_words, json_schema or command",
			"the check says nothing to look for")
	}
	if len(s.problems) > before {
		return c, nil, false
	}
	if c.Gate && s.asked.Pairwise == nil {
		s.refuse(gate.key, "add pairwise, or remove gate", "a gate decides pairs, and none are compared")
		return c, nil, false
	}

	if c.Kind != eval.CheckCommand { // those are run later; see commands.go
		if test, ok = s.compiled(at, c); !ok {
			return c, nil, false
		}
	}
	if c.Name = cmp.Or(c.Name, checkName(c)); !nameable(c.Name) {
		s.refuse(v.place, "add name", "the check has no name that can be shown")
		return c, nil, false
	}
	ok = s.variables(at, &c)
	return c, test, ok
}

// compiled returns the test of a check, and refuses one that is invalid.
func (s *draft) compiled(at value, c eval.Check) (check.Test, bool) {
	test, err := check.New(c)
	if err != nil {
		s.refuse(at.place, "", "%s: %s", c.Kind, strings.Join(strings.Fields(err.Error()), " "))
	}
	return test, err == nil
}

// checkValue reads what a check compares with.
func (s *draft) checkValue(y *yamlFile, v value, kind eval.CheckKind) string {
	switch kind {
	case eval.CheckMaxWords:
		return strconv.Itoa(y.integer(v, 1, math.MaxInt32))
	case eval.CheckJSONSchema:
		if isMapping(v.node) {
			budget := maxOverrides * maxOverrides
			raw, err := json.Marshal(y.free(v, &budget))
			if err != nil {
				y.refuse(v.place, "", "the schema is not JSON: %s", err)
			}
			return string(raw)
		}
		text, _ := s.fileText(y, v)
		return text
	case eval.CheckCommand:
		return s.command(y, v)
	}
	return y.text(v)
}

// checkName returns the name of a check that has none: its kind, and the beginning of what it looks for.
func checkName(c eval.Check) string {
	switch c.Kind {
	case eval.CheckJSONSchema:
		return string(c.Kind)
	case eval.CheckMaxWords:
		return string(c.Kind) + " " + c.Value
	case eval.CheckCommand:
		return string(c.Kind) + " " + printable(strings.Join(check.Command(c, eval.Item{}), " "))
	}
	return string(c.Kind) + " " + strconv.Quote(printable(c.Value))
}

// variables notes the values that the variables of a check have, and the files that a command names. It refuses a
// variable that an item does not have.
func (s *draft) variables(at value, c *eval.Check) bool {
	names, values := check.Variables(*c), s.filesOfCommand(*c)
	if len(names)+len(values) == 0 {
		return true
	}
	for _, name := range names {
		for _, item := range s.asked.Items {
			value, has := check.Value(item, name)
			if !has {
				s.refuse(at.place, "want {{question}}, {{reference}} or another field of every item",
					"{{%s}}: item %q has no such field", name, item.ID)
				return false
			}
			values = append(values, item.ID, name, value)
		}
	}
	raw, err := json.Marshal(values)
	c.Hash = eval.TextHash(string(raw))
	return err == nil
}

// runChecks notes which documents fail which checks. Texts that stand for answers to come are not checked.
func (s *draft) runChecks() {
	if s.answers != nil && s.answers.recorded == nil {
		return
	}
	for k, test := range s.tests {
		if test == nil { // a command
			continue
		}
		for i := range s.asked.Documents {
			d := &s.asked.Documents[i]
			if why, passed := test(d.Readable(s.texts[d.Hash]), s.asked.Items[d.Item]); !passed {
				d.Failed = append(d.Failed, eval.FailedCheck{Check: k, Why: check.Reason(why)})
			}
		}
	}
}

// checkNames returns the names of an evaluation's checks, with those that are gates.
func checkNames(e *eval.Evaluation) string {
	var names []string
	for _, c := range e.Checks {
		names = append(names, c.Label())
	}
	return strings.Join(names, ", ")
}
