package ratelimit

import (
	_ "embed"
	"fmt"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/admit.lua
	admitText string
	//go:embed lua/renew.lua
	renewText string
	//go:embed lua/register.lua
	registerText string
	//go:embed lua/forget.lua
	forgetText string
	//go:embed lua/begin.lua
	beginText string
	//go:embed lua/hold.lua
	holdText string
	//go:embed lua/seed.lua
	seedText string
	//go:embed lua/spent.lua
	spentText string
	//go:embed lua/background.lua
	backgroundText string
	//go:embed lua/assert.lua
	assertText string
	//go:embed lua/clock.lua
	clockText string
	//go:embed lua/samples.lua
	samplesText string
	//go:embed lua/quota.lua
	quotaText string // in front of the scripts that count what quotas were used before

	admitScript      = redis.NewScript(quotaText + admitText)
	renewScript      = redis.NewScript(quotaText + renewText)
	registerScript   = redis.NewScript(registerText)
	forgetScript     = redis.NewScript(forgetText)
	beginScript      = redis.NewScript(beginText)
	holdScript       = redis.NewScript(holdText)
	seedScript       = redis.NewScript(quotaText + seedText)
	spentScript      = redis.NewScript(spentText)
	backgroundScript = redis.NewScript(backgroundText)
	assertScript     = redis.NewScript(assertText)
	clockScript      = redis.NewScript(clockText)
	samplesScript    = redis.NewScript(samplesText)
)

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
