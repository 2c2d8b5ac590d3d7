package batch

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed several.lua
var severalSource string

// Script wraps a script so that Run can run it several times in one command. source must return
// something each time, and set no globals.
func Script(source string) *redis.Script {
	return redis.NewScript(strings.Replace(severalSource, "----\n", source+"\n", 1))
}

// Call holds the keys and arguments of one run of a script.
type Call struct {
	Keys []string
	Args []any
}

// Run runs a script of Script once for all calls. All calls have equally many keys and arguments,
// and their keys are in one slot. It returns their answers; an error among them belongs to one
// call. err applies to all calls; some may have been executed.
func Run(ctx context.Context, client redis.Cmdable, script *redis.Script, calls []Call) (answers []any, err error) {
	nKeys, nArgs := len(calls[0].Keys), len(calls[0].Args)
	keys := make([]string, 0, len(calls)*nKeys)
	args := append(make([]any, 0, 3+len(calls)*nArgs), len(calls), nKeys, nArgs)
	for _, c := range calls {
		if len(c.Keys) != nKeys || len(c.Args) != nArgs {
			return nil, fmt.Errorf(
				"run a script %d times: calls of %d and %d keys, of %d and %d arguments", len(calls), nKeys, len(c.Keys), nArgs,
				len(c.Args),
			)
		}
		keys, args = append(keys, c.Keys...), append(args, c.Args...)
	}
	answers, err = script.Run(ctx, client, keys, args...).Slice()
	if err == nil && len(answers) != len(calls) {
		err = fmt.Errorf("run a script %d times: %d answers", len(calls), len(answers))
	}
	return answers, err
}
