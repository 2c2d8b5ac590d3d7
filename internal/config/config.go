// Package config turns files, environment variables and flags into the settings of the other
// packages: an evaluation file into a Submission, the fleet's --config into a Fleet.
//
// One pass finds all problems and reports each with its place, the value found and the valid
// one (Problems); unknown keys are never ignored. File text is never expanded for "$", "{}" or
// "<…>", because prompts contain them.
//
// It reads files and the environment it is given, and does nothing else: it calls no provider,
// opens no Redis and keeps no state.
package config

import (
	"io"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/prompto"
	"github.com/evalfleet/evalfleet/providers/catalog"
)

// Lookup finds an environment variable, as os.LookupEnv does.
type Lookup func(name string) (value string, ok bool)

// Options are the settings around an evaluation file. The evaluation overrides those of the fleet;
// the environment and flags override the evaluation. The zero value has none of them.
type Options struct {
	// Env, including the variables of a .env file, is read for MAX_CONCURRENT_LLM_CALLS,
	// RETRY_INITIAL_DELAY, RETRY_MAX_DELAY, RETRY_MAX_ATTEMPTS, BATCHING_ENABLED and
	// LLM_CALL_TIMEOUT. nil: empty.
	Env Lookup
	// Fleet is the submitter's --config. nil: the built-in providers only.
	Fleet *Fleet
	// MaxConcurrency is --max-concurrency. nil: not given.
	MaxConcurrency *int
	// JSON is --json-mode. Empty: not given.
	JSON eval.JSONMode
	// NoReuse is --no-reuse.
	NoReuse bool
	// Compare are the flags for what is compared without an evaluation file.
	Compare Compare
	// judges are --judge, for a configuration of promptfoo; nil: the input is another.
	judges []string
	// Again is --again NAME, part of the evaluation's identity.
	Again string
	// Limit is --limit N; 0: all runs.
	Limit int
	// Listed are runs that are listed outside of the evaluation file. The zero value
	// has none.
	Listed Listed
	// Provider and Model are --provider and --model: the model for listed runs that name none.
	// Empty: not given.
	Provider, Model string
	// Batch is --batch: runs are made at once although the evaluation file says
	// enabled: false.
	Batch bool
	// Experiment are the flags of experiments.
	Experiment Experiment
	// AllowOutside is --allow-outside: the evaluation file may name files that are not
	// below its folder.
	AllowOutside bool
	// ForFleet says that workers elsewhere will make the calls: providers and
	// lease in the evaluation file are refused, because they belong in the
	// workers' own --config.
	ForFleet bool
	// Waits says that the caller waits until workers elsewhere have made the calls. It can then submit a second part that
	// needs the results of the first.
	Waits bool
	// RunsCommands says that the caller runs the commands of checks (Submission.Commands) before it submits the
	// evaluation. Without it, such checks are refused.
	RunsCommands bool
	// Replaceable returns why the answer of a listed run must not replace the file at a path below
	// the working folder; nil: it may. Without it, every file may be replaced.
	Replaceable func(name string) error
	// Now is the time at which the evaluation is read, by which prices are chosen. Zero: the current time.
	Now time.Time
	// Opened is called with the path of each file that the evaluation reads, even if the evaluation
	// turns out to be invalid. nil: no calls.
	Opened func(path string)
}

// Submission is an evaluation ready to be run or pushed.
type Submission struct {
	// Evaluation is normalised, so its ID is final.
	Evaluation *eval.Evaluation
	// Texts holds the text of every document, and that of Settings.Votes, by hash.
	Texts map[string]string
	// Settings hold the limits of the file and of Options.Fleet; of two limits with one ID, the
	// tightest.
	Settings record.Settings
	// Providers are all that a judge may name: the built-in ones, those of Options.Fleet, and those
	// of the file itself.
	Providers map[string]catalog.Entry
	// Lease is how long a call's lease is valid without renewal, for calls made in this
	// process.
	Lease time.Duration
	// Sink is the results store of Options.Fleet.
	Sink string
	// Out is the absolute path of the answer to the single run that Options.Listed names; empty:
	// none was given.
	Out string
	// File is the absolute path of an experiment's file. It is empty for other evaluations, and for
	// experiments that ask about the answers of another.
	File string
	// Queues are those of an experiment in the order in which they are listed, including queues
	// without prompts. nil: not an experiment.
	Queues []prompto.Queue
	// Warnings do not stop the evaluation.
	Warnings []Problem
	// Taken tells, one line for each kind of files, how many answers were read from files of answers, and what was not
	// taken and why.
	Taken []string
	// Dir is the folder of the evaluation file.
	Dir string
	// ByFlags says that no evaluation file chooses what is compared: Options.Compare does.
	ByFlags bool
	// Judging is the evaluation that compares the answers of this one; nil: there is none.
	Judging *Judging
	// Anchors is the evaluation that asks the same judges about anchors, before anything else; nil: there is none.
	Anchors *Submission
	// NoReuse asks also what earlier evaluations have recorded answers to.
	NoReuse bool
	// ConfirmAbove is the cost in nano-USD above which a person is asked before the evaluation starts; 0: not given.
	ConfirmAbove int64
}

// OwnProviders returns the sorted names of the providers that the evaluation asks and that are not
// in configured. The evaluation file defines them: its author chose their addresses, so they get no
// key unless the local user allowed it.
func (s *Submission) OwnProviders(configured map[string]catalog.Entry) []string {
	var own []string
	for _, asked := range s.Settings.Everyone(s.Evaluation) {
		if _, ok := configured[asked.Provider]; !ok {
			own = append(own, asked.Provider)
		}
	}
	slices.Sort(own)
	return slices.Compact(own)
}

// Listed are runs that are listed outside of an evaluation file, in one of three
// ways.
type Listed struct {
	// File is --runs-config: a YAML file with a list of runs, or with the keys runs,
	// provider and model.
	File string
	// JSON is the standard input of --runs-stdin: an array of runs. nil: not given.
	JSON io.Reader
	// FileA, FileB and Out are --file-a, --file-b and --out: one run.
	FileA, FileB, Out string
}

// DefaultLease is how long a lease is valid without renewal if nothing else is configured.
const DefaultLease = 10 * time.Second

// DefaultConcurrency bounds an evaluation's calls in flight if neither the evaluation, nor the
// fleet, nor every provider of its judges has a bound.
const DefaultConcurrency = 5
