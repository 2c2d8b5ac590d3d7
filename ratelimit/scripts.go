package ratelimit

import (
	"embed"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua lua/admit/*.lua
var luaFiles embed.FS

// The scripts and the files of which each consists. A file can use the names of those before it.
var (
	admitScript = compose(
		"epoch", "quota", "admit/request", "admit/queue", // what is asked, and who waits
		"admit/kind", "admit/lease", // what kinds of limits share
		"admit/leases", "admit/rate", "admit/window", "admit/quota", "admit/budget", "admit/weight", // one file a kind
		"admit/cooldown",
		"admit/end", "admit/start", "admit/reply", // what is done, in order
	)
	renewScript      = compose("quota", "renew")
	registerScript   = compose("changes", "register")
	readScript       = compose("read")
	forgetScript     = compose("changes", "forget")
	beginScript      = compose("quota", "begin")
	cooldownScript   = compose("cooldown")
	answeredScript   = compose("answered")
	troubleScript    = compose("trouble")
	seedScript       = compose("quota", "changes", "seed")
	spentScript      = compose("changes", "spent")
	unspendScript    = compose("unspend")
	backgroundScript = compose("background")
	assertScript     = compose("assert")
	clockScript      = compose("epoch", "clock")
	samplesScript    = compose("samples")
	marginScript     = compose("changes", "margin")
)

type script struct {
	*redis.Script
	text string
}

// compose joins Lua files into a script.
func compose(names ...string) *script {
	var text strings.Builder
	for _, name := range names {
		file, err := luaFiles.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // not among the embedded files
		}
		text.Write(file)
	}
	return &script{redis.NewScript(text.String()), text.String()}
}

// integers checks that a script answered with integers only.
func integers(reply any, err error) ([]int64, error) {
	if err != nil {
		return nil, err
	}
	list, ok := reply.([]any)
	if !ok {
		return nil, fmt.Errorf("script answered %T, want a list", reply)
	}
	numbers := make([]int64, len(list))
	for i, value := range list {
		if numbers[i], ok = value.(int64); !ok {
			return nil, fmt.Errorf("script answered %T at %d, want an integer", value, i)
		}
	}
	return numbers, nil
}
