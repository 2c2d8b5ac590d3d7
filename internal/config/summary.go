package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Summary describes in one paragraph what a submission asks; plans are those of its phases.
func (s *Submission) Summary(plans []*plan.Plan) (string, error) {
	e := s.Evaluation
	bytes := 0
	different := 0
	for hash, text := range s.Texts {
		if hash != s.Settings.Votes {
			bytes += len(text)
			different++
		}
	}

	texts := fmt.Sprintf("(%s, %d bytes)", wording.Counted(different, "different text"), bytes)
	var asked []string
	if len(e.Documents) > 0 {
		judges := e.FirstJudges()
		if e.Panel != nil {
			judges = slices.Concat(judges, e.Panel.Agents)
		}
		judged := ""
		if len(judges) > 0 {
			judged = ", judged by " + names(judges)
		}
		if strong := e.Strong(); strong >= 0 {
			judged += ", and what they contest by " + names(e.Judges[strong:])
		}
		if len(e.Checks) > 0 {
			judged += ", checked by " + checkNames(e)
		}
		asked = append(
			asked,
			fmt.Sprintf("%s of %s %s%s", wording.Counted(len(e.Documents), "document"), wording.Counted(itemsOf(e), "item"), texts, judged),
		)
		texts = ""
	}

	if s.Settings.Votes != "" {
		votes, err := eval.DecodeVotes(s.Texts[s.Settings.Votes])
		if err != nil {
			return "", err
		}
		asked = append(asked, wording.Counted(len(votes), "vote")+" of people")
	}

	if e.Runs != nil {
		files := strings.TrimSpace(wording.Counted(len(e.Runs.Files), "file") + " " + texts)
		asked = append(
			asked,
			fmt.Sprintf("%s of %s, answered by %s", wording.Counted(len(e.Runs.List), "listed run"), files, names(e.Runs.Models)),
		)
	}
	if e.Prompts != nil {
		asked = append(
			asked,
			fmt.Sprintf("%s %s, answered by %s", wording.Counted(len(e.Prompts.List), "prompt"), texts, names(e.Prompts.Models)),
		)
	}
	var phases []string
	runs := 0
	for _, p := range plans {
		runs += p.Runs()
		most := ""
		if p.Open() && e.Escalate != nil {
			most = "at most "
		}
		phases = append(phases, fmt.Sprintf("%s of %s%s", p.Kind(), most, wording.Counted(p.Runs(), "run")))
	}

	if len(plans) == 0 {
		return fmt.Sprintf("%s (%s): %s. No calls are made.", e.Name, e.ID(), strings.Join(asked, "; ")), nil
	}

	return fmt.Sprintf("%s (%s): %s. %s: %s, %s in all.%s",
		e.Name, e.ID(), strings.Join(asked, "; "),
		wording.Counted(len(plans), "phase"), strings.Join(phases, ", "), wording.Counted(runs, "run"), s.inFlight()), nil
}

// itemsOf counts the items of documents. Files of listed runs may belong to a further one.
func itemsOf(e *eval.Evaluation) int {
	items := map[int]bool{}
	for _, d := range e.Documents {
		items[d.Item] = true
	}
	return len(items)
}

// names returns the names of the judges asked, separated by commas. It adds provider and model to
// names that do not begin with them.
func names(asked []eval.Judge) string {
	all := make([]string, len(asked))
	for i, one := range asked {
		all[i] = one.Name
		if one.Name != one.Target() && !strings.HasPrefix(one.Name, one.Target()+" ") {
			all[i] += " (" + one.Target() + ")"
		}
	}
	return strings.Join(all, ", ")
}

// inFlight describes how many calls the evaluation may have in flight, and which setting says so.
func (s *Submission) inFlight() string {
	switch source := s.Settings.ConcurrencySource; source {
	case "fleet", "providers":
		return fmt.Sprintf(" Calls in flight are bounded by the %s.", source)
	default:
		for _, limit := range s.Settings.Limits {
			if limit.Evaluation != "" {
				return fmt.Sprintf(" At most %s in flight (%s).", wording.Counted(int(limit.Max), "call"), source)
			}
		}
		return ""
	}
}
