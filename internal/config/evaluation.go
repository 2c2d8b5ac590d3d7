package config

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/check"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// draft is a submission being read.
type draft struct {
	findings
	options   Options
	fleet     *Fleet
	top       place // the file as a whole
	dir       string
	asked     eval.Evaluation
	texts     map[string]string
	settings  record.Settings
	known     map[string]catalog.Entry
	judgesAt  []place
	agentsAt  []place // of asked.Panel.Agents
	batching  bool    // ask about dimensions together where possible
	modelsAt  []place // of asked.Runs.Models
	jsonifyAt place
	// fallbackAt is the position of the models of settings.Fallback.
	fallbackAt []place
	own        concurrency
	asks       asks     // the model for listed runs that name none
	out        string   // like Submission.Out
	jsonAt     place    // where the file sets json
	nameAt     place    // of name, or of the file that the evaluation is named after
	named      bool     // the file says blind: false
	taken      []string // like Submission.Taken
	// sameCandidate means that documents of one candidate are compared with each other.
	sameCandidate bool
	// answers are the documents, if they are answers to prompts of the same file; nil: they are not.
	answers *answersToPrompts
	tests   []check.Test // of asked.Checks; nil for commands
	// others are the models that the other part of such a file calls.
	others []eval.Judge

	prices       map[string]providers.Price
	budget       money
	confirmAbove money
	noReuse      bool
	// byFlags is Submission.ByFlags.
	byFlags bool
	// untilAt is the position of settings.Until.
	untilAt place
	// softAt is the position of Pairwise.Soft.
	softAt place
	// batchAt is the position of settings.Batch.
	batchAt place
	// escalateAt is the position of asked.Escalate, and strongAt of the judge in it.
	escalateAt, strongAt place
	strong               eval.Judge
	// rubricAt is where the file says that documents are scored by rubrics.
	rubricAt place
	// anchors are pairs that judges are asked about first; anchorsAt is their key.
	anchors   []anchor
	anchorsAt place
	// images are those that documents and prompts show, each once, and imageBytes the length of their files.
	images     []foundImage
	imageBytes int
}

func newDraft(file, dir, name string, o Options) (*draft, error) {
	fleet := o.Fleet
	if fleet == nil {
		var err error
		if fleet, err = LoadFleet(""); err != nil {
			return nil, err
		}
	}
	return &draft{
		findings: findings{opened: o.Opened, now: o.Now},

		options: o,
		noReuse: o.NoReuse,
		fleet:   fleet,
		top:     place{file: file},
		nameAt:  place{file: file},
		dir:     dir,
		asked:   eval.Evaluation{Name: name, Again: o.Again},
		texts:   map[string]string{},
		prices:  map[string]providers.Price{},
		known:   maps.Clone(fleet.Providers),
		settings: record.Settings{
			Priority: 1,
			Retry:    fleet.Retry,
			Timeouts: maps.Clone(fleet.Timeouts),
			Outage:   fleet.Outage,
			Limit:    o.Limit,
		},
	}, nil
}

// stem returns the name of a file without its folder and extension.
func stem(path string) string { return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)) }

// loadEvaluation reads an evaluation file with its documents, templates and pairs, and applies
// flags and environment. Paths are relative to the file. Its error is of type Problems and lists
// all problems.
//
// A file that contains a list is a file of runs. A document is at most 8 MiB of UTF-8; a byte order
// mark is dropped.
func loadEvaluation(path string, o Options) (*Submission, error) {
	s, err := newDraft(path, filepath.Dir(path), stem(path), o)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		s.refuse(s.top, "to compare the documents in it, name a judge: --judge simulator:careful", "this is a folder")
		return nil, s.problems
	}
	y, root, ok := s.parse(path)
	if !ok {
		return nil, s.problems
	}
	if y.has(root, "prompts") {
		return loadPrompted(path, o)
	}
	s.read(y, root)
	return s.finish()
}

func (s *draft) parse(path string) (y *yamlFile, root value, ok bool) {
	text, ok := s.readText(path, maxText)
	if !ok {
		return nil, value{}, false
	}
	return parseYAML(path, text, &s.findings)
}

// read reads the file's keys. Keys that refer to others are read once all are known.
func (s *draft) read(y *yamlFile, root value) {
	switch {
	case isList(root.node):
		s.listed(y, &root, nil)
		return
	case !isMapping(root.node):
		y.mismatch(root, "keys with values")
		return
	}
	var documents, judges, pairwise, votes, items, runs, test, checks, anchors *value
	keep := func(into **value) func(value) {
		return func(v value) { *into = &v }
	}
	var how howKeys
	known := keys{
		"documents": keep(&documents),
		"judges":    keep(&judges),
		"single":    func(v value) { s.asked.Single = s.single(y, v) },
		"pairwise":  keep(&pairwise),
		"json":      func(v value) { s.asked.JSON, s.jsonAt = y.jsonMode(v), v.place },
		"blind":     func(v value) { s.named = !y.boolean(v) },
		"grounding": func(v value) { s.asked.Grounding = y.requirement(v); how.older.grounding = v.key },
		"reasoning": func(v value) { s.asked.Reasoning = y.requirement(v) },
		"runs":      keep(&runs),
		"test":      keep(&test),
		"panel":     func(v value) { s.asked.Panel = s.panel(y, v) },
		"jsonify":   func(v value) { s.asked.Jsonify, s.jsonifyAt = y.jsonify(v), v.key },
		"fallback":  func(v value) { s.fallback(y, v) },
		"until":     func(v value) { s.until(y, v) },
		"escalate":  func(v value) { s.escalate(y, v) },
		"votes":     keep(&votes),
		"items":     keep(&items),
		"checks":    keep(&checks),
		"anchors":   keep(&anchors),
		"prompts":   func(value) {}, // see readPrompted
		"models":    func(v value) { s.onlyWithPrompts(y, v) },

		"enforce_web_search": keep(&how.older.enforceWebSearch),
	}
	maps.Copy(known, y.asksKeys(&s.asks))
	maps.Copy(known, how.keys(y, s))
	y.mapping(root, known)
	how.read(y, s)
	if s.own.lease > 0 && s.options.ForFleet {
		s.refuse(s.own.leaseAt, "set it in the workers' --config", "lease has no effect on the workers of a fleet")
	}
	if s.answers != nil {
		s.onlyAnswers(documents, runs, test, votes)
		documents, items = nil, nil
	}
	listed := s.listed(y, runs, test)
	if listed && s.asked.Single == nil && pairwise == nil && s.asked.Panel == nil && documents == nil && judges == nil &&
		votes == nil && items == nil && checks == nil && anchors == nil && s.answers == nil {
		return
	}
	s.judged(y, documents, judges, pairwise, votes, items)
	if anchors != nil {
		s.readAnchors(y, *anchors)
	}
	if checks != nil {
		s.checks(y, *checks)
	}
}

// judged reads the questions and people's votes about documents.
func (s *draft) judged(y *yamlFile, documents, judges, pairwise, votes, items *value) {
	paired := s.asked.Single != nil || pairwise != nil
	switch {
	case judges == nil && !paired && votes != nil: // only people's votes are ranked
	case judges != nil && (paired || s.asked.Panel == nil):
		y.judges(*judges, s)
	case judges != nil:
		s.refuse(judges.key, "omit them, or add single or pairwise", "judges have nothing to do: a panel uses agents")
	case paired || s.asked.Panel == nil:
		s.noJudges(s.top)
	}

	var set documentSet
	switch {
	case s.answers != nil:
		set = s.answeredDocuments()
	case documents != nil:
		set = s.documents(y, *documents)
	default:
		s.refuse(s.top, `add documents: ["docs/*.md"]`, "documents are missing")
	}

	if items != nil {
		s.itemsFile(y, *items, set)
	}
	if pairwise != nil {
		s.asked.Pairwise = s.pairwise(y, *pairwise, set)
	}
	if votes != nil {
		s.votes(y, *votes, set)
	}
	if !paired && s.asked.Panel == nil && (votes == nil || judges != nil) {
		s.refuse(s.top, "add single, pairwise or panel", "there is no question about the documents")
	}
	s.showFacts()
	s.rubrics(set)
}

func (y *yamlFile) requirement(v value) eval.Requirement {
	return eval.Requirement(y.oneOf(v, []string{string(eval.Off), string(eval.Required)}))
}

func (s *draft) ownProviders(y *yamlFile, v value) {
	if s.options.ForFleet {
		s.refuse(v.key, "put them into the workers' --config, beside their keys",
			"providers in an evaluation file apply to `run` only, not to the workers of a fleet")
		return
	}
	y.providers(v, s.known, s.fleet.Providers)
}

func (y *yamlFile) jsonMode(v value) eval.JSONMode {
	return eval.JSONMode(y.oneOf(v, []string{string(eval.JSONAuto), string(eval.JSONTrue), string(eval.JSONFalse)}))
}

// finish checks the evaluation as a whole, applies environment and flags, and makes the submission.
func (s *draft) finish() (*Submission, error) {
	if !nameable(s.asked.Name) {
		s.unnameable(s.nameAt, s.asked.Name, "cannot be a name")
	}
	s.addStrong()
	s.checkJudges()
	s.checkAgents()
	s.checkModels()
	s.checkFallback()
	s.checkImages()
	s.setJSON()
	s.setJsonify()
	s.setBatching()
	s.setBatch()
	s.checkSoft()
	s.priceEveryone()
	s.knownScopes(s.own, s.known)
	s.unusedScopes()
	maps.Copy(s.settings.Timeouts, s.own.timeouts)
	s.retryFromEnv(s.options, &s.settings.Retry)
	s.attemptsFlag()
	s.timeoutFromEnv()
	own := s.ownBound()
	s.checkUntil()
	if len(s.anchors) > 0 && !nameable(s.asked.Name+eval.AnchorsSuffix) {
		s.unnameable(s.nameAt, s.asked.Name, "is too long for an evaluation with anchors")
	}
	if err := s.err(); err != nil {
		return nil, err
	}
	s.asked.Blind = s.asked.Judged() && !s.named
	s.asked.Normalize()
	s.runChecks()
	s.boundPairs()
	s.own.charged(s.known)
	limits := append(append([]limit{}, s.fleet.written...), s.own.limits...)
	if own.max > 0 {
		limits = append(limits, limit{Limit: ratelimit.Limit{
			Scope: ratelimit.Scope{Evaluation: string(s.asked.ID())},
			Kind:  ratelimit.Concurrency, Max: int64(own.max),
		}, at: own.at})
	}

	s.settings.Limits = slices.DeleteFunc(s.combine(limits, s.top.file), s.neverMet)
	if s.budget.nano > 0 {
		s.settings.Limits = append(s.settings.Limits, ratelimit.Budget(string(s.asked.ID()), s.budget.nano))
	}
	s.settings.Hold = s.fleet.Hold || s.own.hold
	if s.fleet.Hold && s.own.free != (place{}) {
		s.warn(s.own.free, "remove it", "the fleet's setting is hold, which applies to every evaluation")
	}
	lease := s.fleet.Lease
	if s.own.lease > 0 {
		lease = s.own.lease
	}
	made := &Submission{
		Evaluation: &s.asked,
		Texts:      s.texts,
		Settings:   s.settings,
		Providers:  s.known,
		Lease:      lease,
		Sink:       s.fleet.Sink,
		Out:        s.out,
		Warnings:   s.warnings,
		Taken:      s.taken,
		Dir:        s.dir,
		ByFlags:    s.byFlags,

		NoReuse:      s.noReuse,
		ConfirmAbove: s.confirmAbove.nano,
	}
	if len(s.anchors) > 0 {
		made.Anchors = made.anchored(s.anchors, s.asked.ID())
	}
	return made, nil
}

// setJSON sets the JSON mode. Answers of listed runs are prose unless a mode is given. Answers to
// prompts are stored unchanged, so true is refused there.
func (s *draft) setJSON() {
	at := s.jsonAt
	switch mode := s.options.JSON; mode {
	case "":
	case eval.JSONAuto, eval.JSONTrue, eval.JSONFalse:
		s.asked.JSON, at = mode, place{path: "--json-mode"}
	default:
		s.refuse(place{path: "--json-mode"}, "want auto, true or false", "got %q", mode)
	}
	if s.asked.Runs != nil && s.asked.JSON != eval.JSONFalse {
		s.asked.Runs.JSON = s.asked.JSON
	}
	judged := s.asked.Judged()
	prose := !judged && (s.asked.Runs != nil || s.asked.Prompts != nil)
	switch {
	case prose && s.asked.JSON == eval.JSONTrue && s.asked.Prompts != nil:
		s.refuse(at, "remove it, and ask for JSON in the prompts", "answers to prompts are plain text")
	case prose:
		s.asked.JSON = eval.JSONFalse
	case s.asked.JSON == "":
		s.asked.JSON = eval.JSONAuto
	}
}

// timeoutFromEnv replaces the timeout of calls whose provider and model have none of their own.
func (s *draft) timeoutFromEnv() {
	raw, ok := s.options.lookup("LLM_CALL_TIMEOUT")
	if !ok {
		return
	}
	timeout, ok := parseSeconds(raw)
	if !ok || timeout <= 0 {
		s.refuse(place{path: "LLM_CALL_TIMEOUT"}, "want a number of seconds above 0", "got %q", raw)
	}
	s.settings.Timeouts[""] = timeout
}

// maxFromEnv is the largest valid MAX_CONCURRENT_LLM_CALLS.
const maxFromEnv = 50

// ownBound returns the evaluation's own bound on calls in flight, and notes its source in the
// settings: the strongest of flag, environment and file. If none of them sets it, the evaluation has
// no bound of its own if the fleet or the providers of all judges have one, or if it asks prompts.
// Otherwise, it is the default, or the sum of the providers' caps if that is more.
func (s *draft) ownBound() bound {
	var own bound
	source := ""
	written := s.own.bound()
	if s.options.Batch {
		written = s.own.max
	}
	if written.max > 0 {
		own, source = written, "file"
	}
	const variable = "MAX_CONCURRENT_LLM_CALLS"
	if raw, ok := s.options.lookup(variable); ok {
		n, err := strconv.Atoi(raw)
		switch {
		case err != nil:
			s.refuse(place{path: variable}, "want a whole number from 1 to 50", "got %q", raw)
		case n < 1:
			s.refuse(place{}, "", "%s must be >= 1, got %d", variable, n)
		case n > maxFromEnv:
			s.refuse(place{}, "for more, use max_concurrency in the evaluation file or --max-concurrency",
				"%s must be <= %d, got %d", variable, maxFromEnv, n)
		}
		own, source = bound{n, place{path: variable}}, "environment"
	}

	if flag := s.options.MaxConcurrency; flag != nil {
		at := place{path: "--max-concurrency"}
		if *flag < 1 {
			s.refuse(at, "want a whole number of at least 1", "%d calls in flight", *flag)
		}
		own, source = bound{*flag, at}, "flag"
	}

	sum, all := s.caps()
	switch {
	case source != "":
	case s.fleet.max.max > 0:
		source = "fleet"
	case all:
		source = "providers"
	case s.asked.Prompts != nil && s.asked.Prompts.Format != eval.PromptsTemplates: // these have a pace, and need no other bound
	case sum > DefaultConcurrency:
		own, source = bound{max: sum}, record.ConcurrencySum
	default:
		own, source = bound{max: DefaultConcurrency}, "default"
	}

	s.settings.ConcurrencySource = source
	return own
}

// caps sums the bounds on calls in flight of the providers that are asked; all reports
// whether each has one.
func (s *draft) caps() (sum int, all bool) {
	tightest := map[ratelimit.Scope]int64{}
	for _, l := range append(append([]limit{}, s.fleet.written...), s.own.limits...) {
		if l.Kind == ratelimit.Concurrency {
			if before, ok := tightest[l.Scope]; !ok || l.Max < before {
				tightest[l.Scope] = l.Max
			}
		}
	}

	all = true
	asked := map[string]bool{}
	for _, judge := range s.settings.Everyone(&s.asked) {
		if asked[judge.Provider] {
			continue
		}
		asked[judge.Provider] = true
		most, capped := tightest[ratelimit.Scope{Provider: judge.Provider}]
		if pooled, each := s.pooled(judge.Provider, tightest); each && (!capped || pooled < most) {
			most, capped = pooled, true
		}
		all = all && capped
		sum = int(min(int64(sum)+most, math.MaxInt32))
	}
	return sum, all
}

// pooled sums the bounds on calls in flight of a provider's accounts; each reports whether every one has one.
func (s *draft) pooled(provider string, tightest map[ratelimit.Scope]int64) (sum int64, each bool) {
	accounts := s.fleet.Providers[provider].Accounts
	each = len(accounts) > 0
	for _, account := range accounts {
		most, capped := tightest[ratelimit.Scope{Provider: catalog.AccountName(provider, account.Name)}]
		each = each && capped
		sum = min(sum+most, math.MaxInt32)
	}
	return sum, each
}
