package controller

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// counting is a hook that counts commands.
type counting struct{ n atomic.Int64 }

// count leaves out what a client sends on each new connection, because a pool opens one at any time.
func (c *counting) count(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if name := cmd.Name(); name != "hello" && name != "client" {
			c.n.Add(1)
		}
	}
}

func (c *counting) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *counting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}

func (c *counting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.count(cmds...)
		return next(ctx, cmds)
	}
}

// Of two controllers one sweeps; the other asks whether it should, which is one command.
// It takes over once the first has not swept for a minute.
func TestOneControllerSweeps(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	var all [2]*sweeps
	var made [2]*counting
	for i := range all {
		client := server.Client()
		if err := client.Ping(t.Context()).Err(); err != nil { // which connects
			t.Fatal(err)
		}
		made[i] = &counting{}
		client.AddHook(made[i])
		all[i] = New(Config{Store: store.New(client, ""), Log: zerolog.Nop()}).newSweeps()
	}
	(&bench{all[0].Controller, t, server.Client()}).submit("swept", "p", 3)
	sweep := func(what string, leader int) {
		t.Helper()
		for i := range all {
			made[i].n.Store(0)
			if err := all[i].step(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := made[i].n.Load(); i == leader && n < 10 || i != leader && n > 2 {
				t.Errorf("%s: controller %d made %d commands; %d is to sweep", what, i, n, leader)
			}
		}
	}
	sweep("at first", 0)
	began := time.Now()
	sweep("then", 0)
	lock := all[0].store.Keys().SweepLock()
	ttl := server.Client().PTTL(t.Context(), lock).Val()
	if ttl < 2*sweepEvery-time.Since(began)-time.Second || ttl > 2*sweepEvery {
		t.Errorf("the lock holds for %s, want two intervals", ttl)
	}
	server.Client().Del(t.Context(), lock) // expired: the first was frozen
	if err := all[1].step(t.Context()); err != nil {
		t.Fatal(err)
	}
	sweep("after the first was frozen", 1)
	if all[0].sweeper != nil {
		t.Error("the first remembers what it saw before")
	}
}
