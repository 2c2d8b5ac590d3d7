package store

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
)

// twice delivers a script twice, as a client does that gets no answer the first time,
// and does something between.
type twice struct {
	script  *redis.Script
	between func()
}

func (twice) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return next(ctx, network, address)
	}
}

func (w *twice) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		if between := w.between; between != nil && len(args) > 1 && strings.HasPrefix(cmd.Name(), "eval") && args[1] == w.script.Hash() {
			if err := next(ctx, cmd); err != nil {
				return err
			}
			w.between = nil
			between()
			cmd.SetErr(nil)
		}
		return next(ctx, cmd)
	}
}

func (*twice) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A command that arrives twice takes nothing back that was asked for between.
func TestCommandDeliveredTwice(t *testing.T) {
	t.Parallel()
	pause := func(ctx context.Context, s *Store, r record.Evaluation) error {
		_, err := s.Pause(ctx, r.ID, "")
		return err
	}
	resume := func(ctx context.Context, s *Store, r record.Evaluation) error {
		_, err := s.Resume(ctx, r)
		return err
	}
	submit := func(ctx context.Context, s *Store, r record.Evaluation) error {
		_, err := s.Reopen(ctx, r, nil)
		return err
	}
	type command = func(context.Context, *Store, record.Evaluation) error
	for _, tt := range []struct {
		name    string
		before  []command
		script  *redis.Script
		command command
		between []command
		want    record.Status
	}{
		{"resume, then a pause", []command{pause}, resumeScript, resume, []command{pause}, record.StatusPaused},
		{"resume, then a pause, another resume and pause", []command{pause}, resumeScript, resume, []command{pause, resume, pause}, record.StatusPaused},
		{"submission, then a pause", []command{pause}, reopenScript, submit, []command{pause}, record.StatusPaused},
		{"pause, then a resume", nil, pauseScript, pause, []command{resume}, record.StatusActive},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachRedis(t, func(t *testing.T, s *Store) {
				ctx, r := t.Context(), create(t, s)
				all := func(commands []command) {
					t.Helper()
					for _, do := range commands {
						if err := do(ctx, s, r); err != nil {
							t.Fatal(err)
						}
					}
				}
				all(tt.before)
				if err := tt.script.Load(ctx, s.client).Err(); err != nil {
					t.Fatal(err)
				}
				hook := &twice{script: tt.script, between: func() { all(tt.between) }}
				Universal(s).AddHook(hook)
				all([]command{tt.command})
				if hook.between != nil {
					t.Fatal("the command was delivered once")
				}
				if got := s.standing(t, r.ID).Status; got != tt.want {
					t.Errorf("the evaluation is %s, want %s: the second delivery took something back", got, tt.want)
				}
			})
		})
	}
}
