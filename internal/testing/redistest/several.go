package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// Watched is a master with a replica, and three Sentinels that watch them under the name mymaster.
type Watched struct {
	Master, Replica *Server
	Sentinels       []*Server
}

// NewWatched starts a master, a replica and three Sentinels. args are further options of the master and the replica.
// Those about TLS apply to the Sentinels too.
func NewWatched(t testing.TB, args ...string) *Watched {
	t.Helper()
	w := &Watched{Master: NewTCP(t, args...)}
	w.Replica = NewTCP(t, append([]string{"--replicaof", "127.0.0.1 " + strconv.Itoa(w.Master.port)}, args...)...)
	replica := w.Replica.Client()
	testrun.Eventually(t, "the replica follows its master", func() bool { return follows(replica) })
	var secure []string
	for i := range args {
		if strings.HasPrefix(args[i], "--tls-") {
			secure = append(secure, args[i], args[i+1])
		}
	}

	var sentinels []*redis.Client
	for range 3 {
		// A Sentinel writes its state to the configuration file that it was started with.
		file := filepath.Join(t.TempDir(), "sentinel.conf")
		settings := fmt.Sprintf(
			"sentinel monitor mymaster 127.0.0.1 %d 2\nsentinel down-after-milliseconds mymaster 1000\nsentinel failover-timeout mymaster 6000\n",
			w.Master.port,
		)
		if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
		s := NewTCP(t, append([]string{file, "--sentinel"}, secure...)...)
		w.Sentinels = append(w.Sentinels, s)
		sentinels = append(sentinels, s.Client())
	}

	testrun.Eventually(t, "the Sentinels know each other and the replica", func() bool {
		for _, client := range sentinels {
			known, err := client.Info(context.Background(), "sentinel").Result()
			if err != nil || !strings.Contains(known, "slaves=1,sentinels=3") {
				return false
			}
		}
		return true
	})
	return w
}

// URL returns the address for programs. user is inserted before the hosts, such as "user:password@".
func (w *Watched) URL(user string) string {
	return addressOf("sentinel", user, w.Sentinels) + "/mymaster"
}

// Cluster consists of three masters, each with a third of the slots, and optionally a replica of each.
type Cluster struct {
	Masters, Replicas []*Server
}

// NewCluster starts a Cluster; args are further options of each server. With replicas, it soon fails over; without, no
// server of a busy machine counts as dead.
func NewCluster(t testing.TB, replicas bool, args ...string) *Cluster {
	t.Helper()
	c := new(Cluster)
	bus, clients := map[*Server]int{}, map[*Server]*redis.Client{}
	timeout := "30000"
	if replicas {
		timeout = "2000"
	}
	start := func() *Server {
		port := freePort(t)
		s := NewTCP(t, append([]string{
			"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(port), "--cluster-node-timeout", timeout,
			"--cluster-replica-validity-factor", "0",
		}, args...)...)
		bus[s], clients[s] = port, s.Client()
		return s
	}

	for range 3 {
		c.Masters = append(c.Masters, start())
		if replicas {
			c.Replicas = append(c.Replicas, start())
		}
	}

	all := slices.Concat(c.Masters, c.Replicas)
	ctx := context.Background()
	for i, s := range all {
		if err := clients[s].Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			continue
		}
		if err := clients[c.Masters[0]].Do(ctx, "cluster", "meet", "127.0.0.1", s.port, bus[s]).Err(); err != nil {
			t.Fatal(err)
		}
	}

	for i, s := range c.Masters {
		if err := clients[s].ClusterAddSlotsRange(ctx, i*16384/3, (i+1)*16384/3-1).Err(); err != nil {
			t.Fatal(err)
		}
	}

	for i, s := range c.Replicas {
		of, err := clients[c.Masters[i]].Do(ctx, "cluster", "myid").Text()
		if err != nil {
			t.Fatal(err)
		}
		testrun.Eventually(t, "a replica knows its master", func() bool { return clients[s].ClusterReplicate(ctx, of).Err() == nil })
	}

	testrun.Eventually(t, "the Cluster is whole", func() bool {
		for _, s := range all {
			info, err := clients[s].ClusterInfo(ctx).Result()
			if err != nil || !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(len(all))) {
				return false
			}
		}
		return !slices.ContainsFunc(c.Replicas, func(s *Server) bool { return !follows(clients[s]) })
	})

	for _, s := range c.Masters { // each stores the limits of its own slots
		if err := clients[s].HMGet(ctx, "{ef}:limits", "run").Err(); err == nil {
			s.remember()
		}
	}

	// A replica is listed once its master has written something.
	testrun.Eventually(t, "everybody names everybody", func() bool {
		for _, s := range all {
			ranges, err := clients[s].Do(ctx, "CLUSTER", "SLOTS").Slice() // what clients ask
			named := 0
			for _, slots := range ranges {
				named += len(slots.([]any)) - 2 // from, to, and each node
			}
			if err != nil || named != len(all) {
				return false
			}
		}
		return true
	})
	return c
}

// URL returns the address for programs, as that of Watched.
func (c *Cluster) URL(user string) string {
	return addressOf("cluster", user, c.Masters)
}

// Owner returns the master that stores a key, and its replica if there is one.
func (c *Cluster) Owner(t testing.TB, key string) (master, replica *Server) {
	t.Helper()
	for i, s := range c.Masters {
		err := s.Client().Exists(context.Background(), key).Err()
		switch {
		case redis.HasErrorPrefix(err, "MOVED"):
			continue
		case err != nil:
			t.Fatal(err)
		case i < len(c.Replicas):
			return s, c.Replicas[i]
		}
		return s, nil
	}
	t.Fatalf("no master has %s", key)
	return nil, nil
}

// addressOf returns the address of a Cluster ("cluster") or of Sentinels ("sentinel").
func addressOf(form, user string, servers []*Server) string {
	var hosts []string
	for _, s := range servers {
		hosts = append(hosts, s.Address())
	}
	scheme, _, _ := strings.Cut(servers[0].URL(), "://")
	return scheme + "+" + form + "://" + user + strings.Join(hosts, ",")
}

// follows reports whether a replica has its master's data and receives new data.
func follows(replica *redis.Client) bool {
	info, err := replica.InfoMap(context.Background(), "replication").Result()
	return err == nil && info["Replication"]["master_link_status"] == "up"
}
