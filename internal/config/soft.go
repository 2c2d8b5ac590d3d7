package config

import (
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
)

// checkSoft refuses what soft verdicts cannot go with, and models that are not known to give log probabilities, before
// anything is paid.
func (s *draft) checkSoft() {
	p := s.asked.Pairwise
	if p == nil || !p.Soft {
		return
	}
	switch {
	case len(p.Criteria) > 0:
		s.refuse(s.softAt, "remove soft or criteria", "soft verdicts are overall, and pairwise has criteria")
	case p.Degrees > 0:
		s.refuse(s.softAt, "remove soft or scale", "soft verdicts have no degrees, and pairwise has a scale")
	case s.asked.Strong() >= 0:
		s.refuse(s.softAt, "remove soft or escalate",
			"soft verdicts of judges that see different pairs cannot be averaged, and the evaluation escalates")
	case s.settings.Batch != nil:
		s.refuse(s.batchAt, "remove it, or soft of pairwise", "requests in batches cannot ask for log probabilities, which soft verdicts need")
	}

	judges, places := slices.Clone(s.asked.Judges), slices.Clone(s.judgesAt)
	if f := s.settings.Fallback; f != nil {
		judges, places = append(judges, f.Judges()...), append(places, s.fallbackAt...)
	}
	for i, judge := range judges {
		if entry, known := s.known[judge.Provider]; known { // otherwise it is reported
			s.tells(places[i], judge, entry.Capabilities(judge.Model))
		}
	}
}

// tells refuses a judge that is not known to give log probabilities of its verdicts.
func (s *draft) tells(at place, judge eval.Judge, can providers.Capabilities) {
	switch {
	case can.LogProbs == providers.LogProbsNone:
		s.refuse(at, "ask a model that does, or remove soft of pairwise", "%s gives no log probabilities, which soft verdicts need",
			judge.Target())
	case can.LogProbs == providers.LogProbsUnknown:
		s.refuse(at, "set logprobs: true for it under providers."+judge.Provider+".models if it does",
			"it is not known whether %s gives log probabilities, which soft verdicts need", judge.Target())
	case can.TwoCalls(s.asked.Grounded(eval.KindPairwise), s.asked.JSONOf(eval.KindPairwise) == eval.JSONTrue):
		s.refuse(at, "remove soft of pairwise",
			"%s needs a second call, of another model, for the JSON of a verdict, so its verdicts are not soft", judge.Target())
	}
}
