package gate

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Prefixed returns a hook for the client of a fleet that shares its Redis. It puts a prefix before
// asynq's keys, so that asynq:{q}:pending becomes <prefix>asynq:{q}:pending, which is in the same
// slot. Hooks do not see subscriptions: Config.Prefix is for the one that each of asynq's servers
// makes.
func Prefixed(prefix string) redis.Hook { return prefixed(prefix) }

type prefixed string

func (prefixed) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p prefixed) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		renamed := p.rename(cmd.Args())
		err := next(ctx, cmd)
		if renamed {
			p.restore(cmd)
		}
		return err
	}
}

func (p prefixed) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			p.rename(cmd.Args())
		}
		return next(ctx, cmds)
	}
}

// rename puts the prefix before every key among the words of a command whose first key is one of
// asynq's. asynq also passes its scripts prefixes of keys, and lists keys in other keys. rename
// does not change the words of other commands.
func (p prefixed) rename(words []any) (renamed bool) {
	first := 1
	if name, _ := words[0].(string); strings.HasPrefix(name, "eval") {
		first = 3 // after the script and the number of its keys
	}
	if len(words) <= first {
		return false
	}
	if key, ok := words[first].(string); !ok || !strings.HasPrefix(key, asynqKeys) {
		return false
	}
	for i := first; i < len(words); i++ {
		if word, ok := words[i].(string); ok && (i == first || isAsynqKey(word)) {
			words[i] = string(p) + word
		}
	}
	return true
}

// restore removes the prefix from the keys among a script's replies: asynq's counts of a queue come
// with their keys.
func (p prefixed) restore(cmd redis.Cmder) {
	script, ok := cmd.(*redis.Cmd)
	if !ok {
		return
	}
	answers, _ := script.Val().([]any)
	for i, answer := range answers {
		if word, ok := answer.(string); ok && strings.HasPrefix(word, string(p)) && isAsynqKey(word[len(p):]) {
			answers[i] = word[len(p):]
		}
	}
}

// isAsynqKey reports whether a word is one of asynq's keys, or the beginning of one. Names of
// queues are not: they contain no braces.
func isAsynqKey(word string) bool {
	return strings.HasPrefix(word, asynqKeys) && strings.Contains(word, "{")
}
