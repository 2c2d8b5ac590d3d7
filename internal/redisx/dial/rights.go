package dial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
)

// rights lists the commands that evalfleet sends, directly, in its scripts, or through asynq and
// asynqmon. Each has arguments with which it can be tested; K is a key.
var rights = []string{
	"client setname evalfleet", "ping", "info", "time", "multi", "discard",
	"eval 1 1 K", "evalsha 1 1 K", "eval_ro 1 1 K", "evalsha_ro 1 1 K",
	"del K", exists, "expire K 1", "expireat K 1", "memory usage K", "persist K", "pexpire K 1", "pttl K", "unlink K",
	"get K", "getex K", "getrange K 0 0", "incr K", "incrby K 1", "set K v", "setex K 1 v", "setrange K 0 v",
	"hdel K f", "hexists K f", "hget K f", "hgetall K", "hincrby K f 1", "hkeys K", "hmget K f", "hset K f v",
	"hsetnx K f v", "hvals K",
	"llen K", "lpush K v", "lrange K 0 0", "lrem K 0 v", "rpop K", "rpush K v",
	"sadd K m", "sismember K m", "smembers K", "srem K m", "sscan K 0",
	"xadd K * f v", "xdel K 1-1", "xlen K", xrange,
	"zadd K 1 m", "zcard K", "zcount K 0 1", "zmscore K m", "zrange K 0 0", "zrangebyscore K 0 1", "zrank K m", "zrem K m",
	"zremrangebyrank K 0 0", "zremrangebyscore K 0 1", "zscore K m",
	publish, "subscribe C",
}

// Every role has these; they test patterns.
const (
	publish = "publish C m"
	exists  = "exists K"
)

// ofCluster lists the commands that a Cluster's client also sends.
var ofCluster = []string{"cluster info", "cluster slots", "command"}

// keys returns the patterns of a namespace's keys, and of its channels.
func keys(namespace string) (keys, channels []string) {
	keys = []string{namespace + ":*", "{" + namespace + "}:*", "rate:{" + namespace + "}:*"}
	channels = keys[:2:2]
	if namespace == record.DefaultNamespace {
		return append(keys, "asynq:*"), append(channels, "asynq:*")
	}
	return keys, channels
}

// Rights returns the rights that the user of a role needs in a namespace, in the form of ACL
// SETUSER: the patterns of keys and channels, and the commands. After these come, in parentheses,
// commands for some keys only.
func Rights(namespace string, role Role) string {
	var words []string
	for i, g := range role.grants(namespace) {
		var all []string
		for _, pattern := range g.keys {
			all = append(all, "~"+pattern)
		}
		for _, pattern := range g.channels {
			all = append(all, "&"+pattern)
		}
		for _, example := range g.commands {
			all = append(all, "+"+right(example))
		}
		text := strings.Join(all, " ")
		if i > 0 {
			text = "(" + text + ")"
		}
		words = append(words, text)
	}
	return strings.Join(words, " ")
}

// right returns the command of an example, in the form that ACLs use.
func right(example string) string {
	words := strings.Fields(example)
	if words[0] == "client" || words[0] == "memory" || words[0] == "cluster" {
		return words[0] + "|" + words[1]
	}
	return words[0]
}

// checkRights checks that the client's user may do what a role does in a namespace. It queues the
// commands in a transaction, where Redis checks them, and then discards that: nothing is executed.
func checkRights(ctx context.Context, server *redis.Client, namespace string, role Role) error {
	conn := server.Conn()
	defer conn.Close()
	transaction := conn.Pipeline()
	transaction.Do(ctx, "multi")
	asked := map[string]redis.Cmder{} // by the right that each needs
	ask := func(right, example, key, channel string) {
		var words []any
		for word := range strings.FieldsSeq(example) {
			words = append(words, strings.NewReplacer("K", key, "C", channel).Replace(word))
		}
		asked[right] = transaction.Do(ctx, words...)
	}
	grants := role.grants(namespace)
	for i, g := range grants {
		channel := ""
		if len(g.channels) > 0 {
			channel = example(g.channels[0])
		}
		of := ""
		if i > 0 {
			of = " ~" + g.keys[0]
		}
		for _, r := range g.commands {
			name := right(r)
			// The first three are executed, and only a Cluster has to allow what it needs.
			if name != "multi" && name != "discard" && name != "subscribe" && !slices.Contains(ofCluster, r) {
				ask("+"+name+of, r, example(g.keys[0]), channel)
			}
		}
		for _, pattern := range g.keys {
			ask("~"+pattern, exists, example(pattern), "")
		}
		for _, pattern := range g.channels {
			if slices.Contains(g.commands, publish) {
				ask("&"+pattern, publish, "", example(pattern))
			}
		}
	}

	asked["+discard"] = transaction.Do(ctx, "discard")
	done, err := transaction.Exec(ctx)
	var answered redis.Error
	if err != nil && !errors.As(err, &answered) {
		return explain(err)
	}

	asked["+multi"] = done[0]
	listening := server.Subscribe(ctx, example(grants[0].channels[0]))
	defer listening.Close()
	_, unheard := listening.Receive(ctx)
	return lacks(namespace, role, asked, unheard)
}

// lacks returns which rights are missing, judging by the replies. Other errors come from commands
// of another version, or from a Cluster's other nodes: they deny nothing.
func lacks(namespace string, role Role, asked map[string]redis.Cmder, unheard error) error {
	var missing []string
	for right, cmd := range asked {
		if redis.HasErrorPrefix(cmd.Err(), "NOPERM") {
			missing = append(missing, right)
		}
	}
	if redis.HasErrorPrefix(unheard, "NOPERM") {
		missing = append(missing, "+subscribe")
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf(
		"its user lacks rights: %s; grant those that docs/redis.md lists: ACL SETUSER <user> %s", strings.Join(missing, " "),
		Rights(namespace, role),
	)
}

// example returns a key or a channel that matches a pattern.
func example(pattern string) string { return strings.ReplaceAll(pattern, "*", "rights") }
