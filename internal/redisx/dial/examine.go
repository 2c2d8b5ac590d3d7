package dial

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// oldestRedis is the first version that supports all the scripts.
	oldestRedis = "7.0"
	// leastMemory is the least memory that Redis may have without a warning. A window of runs and
	// the results that wait are bounded above it.
	leastMemory = 512 << 20
	// examineTime bounds Examine.
	examineTime = 10 * time.Second
)

var namespaces = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// CheckNamespace reports what is wrong with the name of a namespace.
func CheckNamespace(name string) error {
	switch {
	case !namespaces.MatchString(name):
		return fmt.Errorf("%q: want at most 64 letters, digits, dots, dashes and underscores", name)
	case name == "asynq" || name == "rate":
		return fmt.Errorf("%q: other keys begin with this name; choose another", name)
	}
	return nil
}

// Examine checks that the fleet of a namespace can use a client of Open. Every master must answer,
// be new enough, evict no keys, and let the user do what evalfleet does. It also returns what is
// unwise about the servers. It does not complain about what a server does not report, because
// managed and embedded ones may hide it.
func Examine(ctx context.Context, client redis.Cmdable, namespace string, role Role) (unwise []string, err error) {
	return examine(ctx, client, namespace, role, examineTime)
}

// examine does what Examine does, within most; tests have more patience.
func examine(
	ctx context.Context, client redis.Cmdable, namespace string, role Role, most time.Duration,
) (unwise []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err = client.Ping(ctx).Err()
	if errors.Is(err, context.DeadlineExceeded) && speaksTLS(client) {
		return nil, fmt.Errorf("does not answer the TLS handshake: %w; if its port does not use TLS, write redis:// instead of rediss://", err)
	}
	if err != nil {
		return nil, explain(err)
	}

	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return examineServer(ctx, client.(*redis.Client), namespace, role, false)
	}
	var mu sync.Mutex
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		found, err := examineServer(ctx, node, namespace, role, true)
		if err == nil {
			err = whole(ctx, node)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, what := range found {
			if !slices.Contains(unwise, what) {
				unwise = append(unwise, what)
			}
		}
		if err != nil {
			return fmt.Errorf("its master %s: %w", node.Options().Addr, err)
		}
		return nil
	})
	return unwise, err
}

func speaksTLS(client redis.Cmdable) bool {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.Options().TLSConfig != nil
	}
	return client.(*redis.Client).Options().TLSConfig != nil
}

// whole checks that a Cluster serves every key, according to one of its masters.
func whole(ctx context.Context, node *redis.Client) error {
	told, err := node.ClusterInfo(ctx).Result()
	if err != nil {
		return explain(err)
	}
	state, slots := field(told, "cluster_state"), field(told, "cluster_slots_ok")
	if state != "ok" || slots != "16384" {
		return startingError{fmt.Errorf(
			"the Cluster is incomplete: cluster_state is %s, and %s of 16384 slots are served; `redis-cli --cluster check` "+
				"says which master is missing",
			state, slots,
		)}
	}
	return nil
}

// examineServer checks one server, which must be a master, alone or in a Cluster.
func examineServer(ctx context.Context, server *redis.Client, namespace string, role Role, cluster bool) (unwise []string, err error) {
	info, err := server.Info(ctx).Result()
	var answered redis.Error
	switch {
	case redis.HasErrorPrefix(err, "NOPERM"): // reported below, with everything else that is not allowed
	case err != nil && !errors.As(err, &answered):
		return nil, explain(err)
	case field(info, "redis_version") == "":
		return nil, nil // an embedded server
	}
	if err := refuse(info, cluster); err != nil {
		return nil, err
	}
	return advise(info), checkRights(ctx, server, namespace, role)
}

// refuse returns why a server cannot be used, alone or in a Cluster, judging by its INFO.
func refuse(info string, cluster bool) error {
	version := field(info, "redis_version")
	policy := field(info, "maxmemory_policy")
	switch {
	case version != "" && olderThan(version, oldestRedis):
		return fmt.Errorf("version %s is too old: evalfleet needs %s or newer", version, oldestRedis)
	case field(info, "redis_mode") == "sentinel":
		return errors.New("this is a Sentinel: write redis+sentinel://host:port,…/master")
	case field(info, "cluster_enabled") == "1" && !cluster:
		return errors.New("this is one server of a Cluster: write redis+cluster://host:port,…")
	case field(info, "role") == "slave":
		return fmt.Errorf("this is a replica, which accepts no writes: use its master %s:%s, or the Sentinels that watch it",
			field(info, "master_host"), field(info, "master_port"))
	case policy != "" && policy != "noeviction":
		return fmt.Errorf(
			"its maxmemory-policy is %s, which evicts queues and limits when memory is low: set `maxmemory-policy noeviction`",
			policy,
		)
	}
	return nil
}

// advise returns what is unwise about a server, judging by its INFO.
func advise(info string) (unwise []string) {
	if most, err := strconv.ParseInt(field(info, "maxmemory"), 10, 64); err == nil && most > 0 && most < leastMemory {
		unwise = append(
			unwise,
			fmt.Sprintf(
				"Redis may use only %d MB (maxmemory): once that is full, nothing is queued or recorded until results are collected; set %d MB or more",
				most>>20, leastMemory>>20,
			),
		)
	}
	if field(info, "aof_enabled") == "0" && field(info, "connected_slaves") == "0" {
		unwise = append(
			unwise,
			"Redis has neither an append-only file nor a replica: a restart loses queued runs and uncollected results; set `appendonly yes`",
		)
	}
	return unwise
}

// field returns a field of INFO; "" if it is missing.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}

func olderThan(version, than string) bool {
	a, b := strings.Split(version, "."), strings.Split(than, ".")
	for i := range b {
		if i >= len(a) {
			return true
		}
		x, err := strconv.Atoi(a[i])
		if err != nil {
			return false // the version of another kind of server says nothing
		}
		if y, _ := strconv.Atoi(b[i]); x != y {
			return x < y
		}
	}
	return false
}
