package bench

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// info is one section of INFO.
func info(b *testing.B, client *redis.Client, section string) map[string]string {
	b.Helper()
	text, err := client.Info(context.Background(), section).Result()
	if err != nil {
		b.Fatal(err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// cpu is what Redis has used of a CPU since it began.
func cpu(b *testing.B, client *redis.Client) time.Duration {
	b.Helper()
	fields := info(b, client, "cpu")
	var seconds float64
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		n, err := strconv.ParseFloat(fields[name], 64)
		if err != nil {
			b.Fatalf("INFO cpu: %s: %v", name, err)
		}
		seconds += n
	}
	return time.Duration(seconds * float64(time.Second))
}

// commands is how often each command ran; a command that a script ran counts as
// one of its own.
func commands(b *testing.B, client *redis.Client) map[string]int64 {
	b.Helper()
	counts := map[string]int64{}
	for name, value := range info(b, client, "commandstats") {
		calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		if err != nil {
			b.Fatalf("INFO commandstats: %s: %v", name, err)
		}
		counts[strings.TrimPrefix(name, "cmdstat_")] = n
	}
	return counts
}

// allCommands is how many commands ran, those of scripts included.
func allCommands(b *testing.B, client *redis.Client) (sum float64) {
	b.Helper()
	for name, n := range commands(b, client) {
		if name != "info" {
			sum += float64(n)
		}
	}
	return sum
}

// scripts is how many scripts were sent.
func scripts(b *testing.B, client *redis.Client) int64 {
	b.Helper()
	of := commands(b, client)
	return of["evalsha"] + of["eval"] + of["evalsha_ro"] + of["eval_ro"]
}

var empty = redis.NewScript("return 0")

// rivals reports what the least costs in the same minute: a script that does
// nothing, and redis_rate's Allow, each from 64 callers.
func rivals(b *testing.B, client *redis.Client) {
	b.Helper()
	ctx := context.Background()
	limiter := redis_rate.NewLimiter(client)
	limit := redis_rate.Limit{Rate: 1 << 30, Burst: 1 << 30, Period: time.Second}
	for name, ask := range map[string]func() error{
		"evalsha": func() error { return empty.Run(ctx, client, []string{"k"}).Err() },
		"redis_rate": func() error {
			_, err := limiter.Allow(ctx, "k", limit)
			return err
		},
	} {
		const callers = 64
		each := sized(20, 300)
		before, began := cpu(b, client), time.Now()
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				for range each {
					if err := ask(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		n := float64(callers * each)
		b.ReportMetric((cpu(b, client)-before).Seconds()*1e6/n, "redis-µs/"+name)
		b.ReportMetric(n/time.Since(began).Seconds(), name+"/s")
	}
}
