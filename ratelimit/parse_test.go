package ratelimit

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func FuzzParseWake(f *testing.F) {
	for _, payload := range []string{"limits", "{ef}:w:fleet/concurrency 0", "{ef}:w:a b 25000", "", " ", "x -1", "x 99999999999999999999"} {
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		now := time.Unix(1, 0)
		w, ok := parseWake(&redis.Message{Payload: payload}, now)
		if !ok && w != (wake{}) {
			t.Errorf("refused %q but read %+v", payload, w)
		}
	})
}

func TestParseWake(t *testing.T) {
	t.Parallel()
	now := time.Unix(1, 0)
	for _, test := range []struct {
		message any
		want    wake
		ok      bool
	}{
		{&redis.Message{Payload: "limits"}, wake{limits: true}, true},
		{&redis.Message{Payload: "{ef}:w:a b 25000"}, wake{waiters: "{ef}:w:a b", at: now.Add(25 * time.Millisecond)}, true},
		{&redis.Message{Payload: "nonsense"}, wake{}, false},
		{&redis.Message{Payload: "w soon"}, wake{}, false},
		{&redis.Subscription{Kind: "subscribe"}, wake{at: now}, true},
		{&redis.Subscription{Kind: "unsubscribe"}, wake{at: now}, false},
		{&redis.Pong{}, wake{}, false},
	} {
		if got, ok := parseWake(test.message, now); ok != test.ok || ok && got != test.want {
			t.Errorf("parseWake(%v) = %+v, %v; want %+v, %v", test.message, got, ok, test.want, test.ok)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{1, 1, 1, 0, 0, 0, 0, 0, 0, 0}, 1)
	f.Add([]byte{1, 0, 0, 9, 9, 9, 1, 1}, 1)
	f.Fuzz(func(t *testing.T, bytes []byte, calls int) {
		b := &batch{}
		b.ask(newQueue([]*rule{{id: "r"}}), make([]*call, 1+int(uint(calls)%8)))
		reply := make([]int64, len(bytes))
		for i, n := range bytes {
			reply[i] = int64(int8(n))
		}
		if o, ok := b.decode(reply); ok {
			if n := len(o.groups[0].grants); n > len(b.groups[0].calls) || (o.groups[0].bound == nil) != (n == len(b.groups[0].calls)) {
				t.Errorf("took %v for an answer: %+v", reply, o)
			}
		}
	})
}
