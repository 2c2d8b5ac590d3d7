package main

import "github.com/evalfleet/evalfleet/internal/cli/commandline"

// flagGroups lists groups of flags in the order in which help shows them. Flags of no group are the common ones, which
// come first.
var flagGroups = []commandline.Group{
	{Title: "Limits", Flags: []string{
		"limit", "max-concurrency", "slots", "max-answer-mib", "grace", yesFlag, topFlag, budgetFlag, pairsFlag, noReuseFlag,
		"max-in-flight", "requests", "tokens", "input-tokens", "output-tokens", "charge", "retry-after", "hints", "without-limit-headers",
		"other-requests", "other-tokens",
	}},
	{Title: "Faults", Flags: []string{
		"throttle-rate", "throttle-every", "throttle-between",
		"fail-rate", "fail-status", "fail-every", "hang-rate", "cut-rate", "malformed-rate",
		"without-schemas",
	}},
	{Title: "Fleet", Flags: []string{
		configFlag, "server", "wait", "queues", "metrics-addr", "events", "sink", allowSinkFlag, "cache", "drain", "max-upload-mib", "prometheus",
	}},
	{Title: "Listed runs", Flags: []string{"runs-config", "runs-stdin", "file-a", "file-b", "provider", "model", "out", "batch"}},
	{Title: "Experiments", Flags: []string{
		"data-folder", "max-queries", "max-queries-json", "parallel", "max-attempts",
		"output-as-csv", "move-to-input", "judge-folder", "judge-templates",
	}},
	{Title: "Permissions", Flags: []string{allowOutsideFlag, allowKeysFlag, allowCommandsFlag}},
	{Title: "Ranking", Flags: []string{"fallbacks", "ties", "length", "position-effect", "flips", "judge-scale", "draws"}},
	{Title: "Redis", Flags: []string{redisFlag, redisPasswordFlag, redisCAFlag, redisCertFlag, redisKeyFlag, redisNameFlag, namespaceFlag}},
	{Title: "Logs", Flags: []string{logLevelFlag, logFormatFlag}},
}

// examples maps commands to the command lines that help shows for them.
var examples = map[string][]string{
	"run": {
		"evalfleet run evaluation.yaml --out-dir results",
		"evalfleet run essays/ --judge openai:gpt-5-mini --max-concurrency 8",
	},
	"add": {
		"evalfleet add results model-d.jsonl",
		"evalfleet add evalfleet-out/board-ev-7kjbbnha7oy4 'new/*.jsonl' --opponents 4",
	},
	"enqueue": {
		"evalfleet enqueue evaluation.yaml --redis redis://redis:6379/0",
		"evalfleet enqueue evaluation.yaml --server https://evalfleet.example.com --wait",
	},
	"worker": {
		"evalfleet worker --redis redis://redis:6379/0 --config fleet.yaml",
		"evalfleet worker --queues openai,group=large --slots 200",
	},
	"collect": {
		"evalfleet collect ev-7kjbbnha7oy4 --redis redis://redis:6379/0 --out-dir results",
		"evalfleet collect --follow --redis redis://redis:6379/0",
	},
	"controller": {
		"evalfleet controller --redis redis://redis:6379/0 --listen 127.0.0.1:8080",
		"evalfleet controller --listen 0.0.0.0:8080 --auth-file users --allow-actions",
	},
	"status": {
		"evalfleet status --watch --redis redis://redis:6379/0",
		"evalfleet status results --json",
	},
	"show": {
		"evalfleet show 0.17 results",
		"evalfleet show 0.17 ev-7kjbbnha7oy4 --json",
	},
	"pause":  {"evalfleet pause ev-7kjbbnha7oy4", "evalfleet pause ev-7kjbbnha7oy4 --redis redis://redis:6379/0"},
	"resume": {"evalfleet resume results", "evalfleet resume ev-7kjbbnha7oy4 --redis redis://redis:6379/0"},
	"cancel": {"evalfleet cancel ev-7kjbbnha7oy4", "evalfleet cancel ev-7kjbbnha7oy4 --force"},
	"retry":  {"evalfleet retry results", "evalfleet retry results --class timeout"},
	"delete": {"evalfleet delete ev-7kjbbnha7oy4", "evalfleet delete ev-7kjbbnha7oy4 --force"},
	"limits": {"evalfleet limits --watch --redis redis://redis:6379/0", "evalfleet limits results"},
	"report": {
		"evalfleet report results --details",
		"evalfleet report results --require 'new >= old @ 0.95' --junit report.xml",
	},
	"rank":     {"evalfleet rank battles.csv --out-dir ranked", "evalfleet rank votes.csv judged.jsonl --order shown"},
	"migrate":  {"evalfleet migrate results", "evalfleet migrate postgres://db.example.com/evalfleet"},
	"validate": {"evalfleet validate evaluation.yaml", "evalfleet validate --data-folder data"},
	"doctor":   {"evalfleet doctor evaluation.yaml", "evalfleet doctor --config fleet.yaml --redis redis://redis:6379/0"},
	"estimate": {"evalfleet estimate evaluation.yaml", "evalfleet estimate essays/ --judge openai:gpt-5-mini --json"},
	"init":     {"evalfleet init", "evalfleet init essays"},
	"schema":   {"evalfleet schema evaluation", "evalfleet schema fleet"},
	"ui":       {"evalfleet ui results", "evalfleet ui --redis redis://redis:6379/0 --listen 127.0.0.1:9000"},
	"vote":     {"evalfleet vote results", "evalfleet vote results --contested --votes-per-pair 3 --listen 0.0.0.0:8090"},
	"simulate": {
		"evalfleet simulate --listen 127.0.0.1:8089 --latency 200ms..2s",
		"evalfleet simulate --requests 60/1m --fail-rate 0.05",
	},
	"healthcheck": {"evalfleet healthcheck", "evalfleet healthcheck --ready --metrics-addr 127.0.0.1:9101"},
	"completion": {
		"evalfleet completion bash > /etc/bash_completion.d/evalfleet",
		"evalfleet completion fish > ~/.config/fish/completions/evalfleet.fish",
	},
	"man":     {"evalfleet man /usr/local/share/man/man1", "evalfleet man bin/man"},
	"demo":    {"evalfleet demo", "evalfleet demo --listen 127.0.0.1:0"},
	"version": {"evalfleet version", "evalfleet --version"},
}
