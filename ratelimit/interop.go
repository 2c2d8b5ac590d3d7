package ratelimit

import "github.com/go-redis/redis_rate/v10"

// RedisRate returns the key and the limit with which another program can share a request rate with this fleet, through
// plain redis_rate. The program must use the same Redis and database. ok is false for a limit that is not a rate.
func (a *Admin) RedisRate(limit Limit) (key string, rate redis_rate.Limit, ok bool) {
	if limit.Kind != Requests || limit.Resets != "" {
		return "", redis_rate.Limit{}, false
	}
	interval, burst := limit.pace()
	return a.keys.tag + ":" + limit.ID(), redis_rate.Limit{Rate: 1, Burst: int(burst), Period: interval}, true
}
