package ratelimit

import "github.com/go-redis/redis_rate/v10"

// RedisRate is the key and the limit with which another program keeps a request
// rate through plain redis_rate, together with this fleet: it needs the same
// Redis and database. ok is false for a limit that is no rate.
func (a *Admin) RedisRate(limit Limit) (key string, rate redis_rate.Limit, ok bool) {
	if limit.Kind != Requests || limit.Resets != "" {
		return "", redis_rate.Limit{}, false
	}
	interval, burst := limit.pace()
	return a.keys.tag + ":" + limit.ID(), redis_rate.Limit{Rate: 1, Burst: int(burst), Period: interval}, true
}
