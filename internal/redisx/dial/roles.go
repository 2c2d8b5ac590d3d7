package dial

import (
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/enqueue/record"
)

// Role is what a process does with a fleet's Redis, which determines the rights of its user.
type Role string

const (
	// Controller drains, steers and deletes evaluations: it may use every command.
	Controller Role = "controller"
	// Worker executes runs and keeps queues moving.
	Worker Role = "worker"
	// Submitter submits evaluations.
	Submitter Role = "submitter"
	// Viewer shows evaluations and changes nothing.
	Viewer Role = "viewer"
)

// grant is a set of commands that a user may use with keys and channels.
type grant struct{ keys, channels, commands []string }

// readers lists the rights that change nothing, except for those that read results.
var readers = []string{
	"client setname evalfleet", "ping", "info", "time", "multi", "discard",
	"eval 1 1 K", "evalsha 1 1 K", "eval_ro 1 1 K", "evalsha_ro 1 1 K",
	exists, "memory usage K", "pttl K",
	"get K", "getrange K 0 0", "hexists K f", "hget K f", "hgetall K", "hkeys K", "hmget K f", "hvals K",
	"llen K", "lrange K 0 0", "sismember K m", "smembers K", "sscan K 0", "xlen K",
	"zcard K", "zcount K 0 1", "zmscore K m", "zrange K 0 0", "zrangebyscore K 0 1", "zrank K m", "zscore K m",
	"subscribe C",
}

// grants returns what a role needs: the first grant for all keys, others for some keys.
func (r Role) grants(namespace string) []grant {
	keys, channels := keys(namespace)
	ns, of := namespace+":", namespace+":{*}:"
	asynq := (record.Keys{Namespace: namespace}).Asynq() + "asynq:"
	reading := grant{keys, channels, slices.Concat(readers, ofCluster)}
	// The keys of limits and queues, which contain no results.
	changing := grant{[]string{"{" + namespace + "}:*", "rate:{" + namespace + "}:*", asynq + "*"}, nil, changes}
	switch r {
	case Viewer:
		reading.commands = slices.Concat(readers, []string{xrange}, ofCluster)
		// asynq forgets servers and workers that are gone when it lists them.
		listing := []string{exists, "zremrangebyscore K 0 1"}
		return []grant{reading, {[]string{asynq + "servers", asynq + "workers"}, nil, listing}}
	case Submitter:
		reading.commands = slices.Concat(readers, []string{publish}, ofCluster)
		own := []string{ns + "evaluations", ns + "active", ns + "queues", ns + "topup",
			of + "record", of + "plan", of + "documents", of + "cursors", of + "counts", of + "states:*", of + "choice:*"}
		// Submitting an evaluation again stops all its keys from expiring, including results.
		return []grant{reading, changing, {own, nil, changes}, {[]string{of + "*"}, nil, []string{exists, "persist K"}}}
	case Worker:
		reading.commands = slices.Concat(readers, []string{publish}, ofCluster)
		own := []string{ns + "evaluations", ns + "active", ns + "queues", ns + "offers", ns + "worker:*", ns + "topup",
			ns + "house", ns + "sweep",
			of + "record", of + "cursors", of + "counts", of + "states:*", of + "run:*", of + "progress"}
		// Everything expires after the end. Results are appended. A look at the oldest one shows
		// whether a results store has those that this worker recorded.
		return []grant{reading, changing, {own, nil, changes},
			{[]string{of + "*"}, nil, []string{exists, "expire K 1", "pexpire K 1", "persist K"}},
			{[]string{of + "results"}, nil, []string{exists, "xadd K * f v", xrange}}}
	}

	return []grant{{keys, channels, slices.Concat(rights, ofCluster)}}
}

const xrange = "xrange K - +"

// changes lists the rights that write, except for those to streams.
var changes = func() []string {
	all := []string{exists}
	for _, r := range rights {
		if !slices.Contains(readers, r) && r != publish && !strings.HasPrefix(r, "x") {
			all = append(all, r)
		}
	}
	return all
}()
