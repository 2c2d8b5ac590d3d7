package ratelimit

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A process reads only the holders that changed since it read last, and all of them where the
// log of changes cannot tell.
func TestRegistryIsReadInParts(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		k, admin := newKeys("ef"), tools(client)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(admin.Begin(t.Context(), 0))
		// As releases do that log nothing.
		unlogged := func(holder, limits string) {
			t.Helper()
			must(client.HSet(t.Context(), k.registry(), holder, limits).Err())
			must(client.HIncrBy(t.Context(), k.registry(), versionField, 1).Err())
		}
		changes := map[string]struct {
			change func()
			part   bool
			want   []string // the holders in the part
		}{
			"nothing":        {func() {}, true, nil},
			"one":            {func() { register(t, client, "ev-b", inFlight(openai, 3)) }, true, []string{"ev-b"}},
			"the same again": {func() { register(t, client, "ev-b", inFlight(openai, 4)) }, true, nil},
			"one twice, and another": {func() {
				register(t, client, "ev-b")
				register(t, client, "ev-c")
				register(t, client, "ev-b", inFlight(openai, 2))
			}, true, []string{"ev-b", "ev-c"}},
			"one is taken out":                    {func() { must(admin.Unregister(t.Context(), "ev-a")) }, true, []string{"ev-a"}},
			"a budget is told":                    {func() { must(admin.TellSpent(t.Context(), "ev-a", "", 1)) }, true, nil},
			"one, by a release before":            {func() { unlogged("ev-b", "[]") }, false, nil},
			"one, after one by a release before":  {func() { unlogged("ev-b", "[]"); register(t, client, "ev-c") }, false, nil},
			"one, before one by a release before": {func() { register(t, client, "ev-c"); unlogged("ev-b", "[]") }, false, nil},
			"one, whose entry is lost":            {func() { register(t, client, "ev-c"); must(client.Del(t.Context(), k.changes()).Err()) }, false, nil},
			"the memory":                          {func() { must(client.HSet(t.Context(), k.registry(), epochField, "another").Err()) }, false, nil},
			"everything, up to the version before": {func() {
				version := client.HGet(t.Context(), k.registry(), versionField).Val()
				must(client.Del(t.Context(), k.registry()).Err())
				register(t, client, "ev-b")
				must(client.HSet(t.Context(), k.registry(), versionField, version).Err())
			}, false, nil},
		}
		for name, c := range changes {
			must(client.Del(t.Context(), k.registry(), k.changes()).Err())
			must(admin.Begin(t.Context(), 0))
			register(t, client, "fleet", inFlight(openai, 8))
			register(t, client, "ev-a", inFlight(openai, 6), inFlight(Scope{Evaluation: "ev-a"}, 2))
			register(t, client, "ev-b", inFlight(openai, 4))
			before, err := admin.load(t.Context())
			must(err)
			c.change()
			reply, err := readScript.Run(t.Context(), client, k.read(), before.version).StringSlice()
			must(err)
			part, fields, _, err := splitReply(reply)
			must(err)
			holders := slices.DeleteFunc(slices.Sorted(maps.Keys(fields)), reserved)
			if part != c.part || part && !slices.Equal(holders, c.want) {
				t.Errorf("%s: reads %v, a part: %t; want %v, a part: %t", name, holders, part, c.want, c.part)
			}
			now, err := admin.load(t.Context())
			must(err)
			if whole, err := tools(client).load(t.Context()); err != nil || !reflect.DeepEqual(now, whole) {
				t.Errorf("%s: the registry is taken for\n%s\nwant\n%s, %v", name, spew(now), spew(whole), err)
			}
		}
	})
}

// What a newer program pinned keeps a process from going on with what it knew before.
func TestPartThatIsNotUnderstoodFailsClosed(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		k, admin := newKeys("ef"), tools(client)
		if err := admin.Begin(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		register(t, client, "fleet", inFlight(openai, 8))
		if _, err := admin.load(t.Context()); err != nil {
			t.Fatal(err)
		}
		newer := func(limits string) {
			t.Helper()
			keys := []string{k.registry(), k.alive(), k.changes(), k.former()}
			if err := registerScript.Run(t.Context(), client, keys, "ev-a", limits, k.wake(""), "").Err(); err != nil {
				t.Fatal(err)
			}
		}
		newer(`[{"kind":"watts","max":5}]`)
		for range 2 {
			if _, err := admin.load(t.Context()); err == nil {
				t.Error("the limits were taken")
			}
		}
		newer("")
		if now, err := admin.load(t.Context()); err != nil || len(now.holders) != 1 {
			t.Errorf("load = %v, want the limits of one holder", err)
		}
	})
}
