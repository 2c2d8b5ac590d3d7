package ratelimit

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// stage is a Redis whose clock the test sets.
type stage struct {
	name     string
	client   *redis.Client
	messages *redis.PubSub
	marks    int
	pending  []*redis.Message // that came while a subscription changed
	// set sets the clock, which has moved on by so much.
	set func(now time.Time, passed time.Duration) error
	// text of a script, with the clock in place of Redis's.
	scripts    map[*script]*redis.Script
	keysExpire bool
}

// embeddedStage is miniredis, which has a clock to set, also for the life of
// keys.
func embeddedStage(t testing.TB) *stage {
	server := miniredis.RunT(t)
	client := redis.NewClient(redistest.Patient(&redis.Options{Addr: server.Addr(), Protocol: 2}))
	t.Cleanup(func() { _ = client.Close() })
	return newStage(t, &stage{
		name: "embedded", client: client, keysExpire: true,
		set: func(now time.Time, passed time.Duration) error {
			server.SetTime(now)
			server.FastForward(passed)
			return nil
		},
	})
}

// realStage is a redis-server, whose scripts read the time from a key. Keys live
// on its own clock, on which a history takes no time.
func realStage(t testing.TB) *stage {
	const clock = "{ef}:clock"
	server := redistest.New(t)
	s := &stage{name: "redis", client: server.Client(), scripts: map[*script]*redis.Script{}}
	for _, script := range []*script{
		admitScript, renewScript, registerScript, forgetScript, beginScript, cooldownScript, seedScript, backgroundScript, spentScript, unspendScript, clockScript, marginScript,
	} {
		text := script.text
		if strings.Count(text, "redis.call('TIME')") != 1 {
			t.Fatal("a script reads the clock in another way than once by redis.call('TIME')")
		}
		s.scripts[script] = redis.NewScript(strings.Replace(text, "redis.call('TIME')", "redis.call('LRANGE', '"+clock+"', 0, 1)", 1))
	}
	s.set = func(now time.Time, _ time.Duration) error {
		pipe := s.client.Pipeline()
		pipe.Del(context.Background(), clock)
		pipe.RPush(context.Background(), clock, now.Unix(), now.Nanosecond()/1000)
		_, err := pipe.Exec(context.Background())
		return err
	}
	return newStage(t, s)
}

func newStage(t testing.TB, s *stage) *stage {
	s.messages = s.client.Subscribe(context.Background(), "mark")
	t.Cleanup(func() { _ = s.messages.Close() })
	if _, err := s.messages.Receive(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stage) run(script *script, keys []string, args ...any) *redis.Cmd {
	if clocked := s.scripts[script]; clocked != nil {
		return clocked.Run(context.Background(), s.client, keys, args...)
	}
	return script.Run(context.Background(), s.client, keys, args...)
}

// heard returns what was published since it was asked last.
func (s *stage) heard(prefix string) (messages []string, err error) {
	s.marks++
	mark := strconv.Itoa(s.marks)
	if err := s.client.Publish(context.Background(), "mark", mark).Err(); err != nil {
		return nil, err
	}
	for {
		var m *redis.Message
		if len(s.pending) > 0 {
			m, s.pending = s.pending[0], s.pending[1:]
		} else if m, err = s.messages.ReceiveMessage(context.Background()); err != nil {
			return nil, err
		}
		if m.Channel == "mark" {
			if m.Payload == mark {
				return messages, nil
			}
			continue
		}
		messages = append(messages, strings.TrimPrefix(m.Channel, prefix)+" "+m.Payload)
	}
}

// listen starts or ends a subscription and waits until it has.
func (s *stage) listen(channel string, on bool) error {
	change := s.messages.Unsubscribe
	if on {
		change = s.messages.Subscribe
	}
	if err := change(context.Background(), channel); err != nil {
		return err
	}
	for {
		m, err := s.messages.Receive(context.Background())
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *redis.Message:
			s.pending = append(s.pending, m)
		case *redis.Subscription:
			if m.Channel == channel {
				return nil
			}
		}
	}
}
