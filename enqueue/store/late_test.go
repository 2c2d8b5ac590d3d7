package store

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
)

// late holds a script back that a client sends: the client gets an error, and deliver sends it.
type late struct {
	script  *redis.Script
	deliver func() error
}

func (late) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return next(ctx, network, address)
	}
}

func (l *late) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		if l.deliver != nil || !strings.HasPrefix(cmd.Name(), "eval") || args[1] != l.script.Hash() {
			return next(ctx, cmd)
		}
		l.deliver = func() error {
			sent := redis.NewCmd(context.WithoutCancel(ctx), args...)
			sent.SetFirstKeyPos(3)
			return next(context.WithoutCancel(ctx), sent)
		}
		cmd.SetErr(errLate)
		return errLate
	}
}

func (*late) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

var errLate = errors.New("the packet is late")

// A script that ends or removes names the record that it means: delivered after the evaluation was
// submitted again, deleted before or not, it changes nothing.
func TestLateCommand(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		script  *redis.Script
		command func(context.Context, *Store, record.Evaluation) error
	}{
		{"delete", deleteScript, func(ctx context.Context, s *Store, r record.Evaluation) error { return s.Delete(ctx, r.ID) }},
		{"cancel", cancelScript, func(ctx context.Context, s *Store, r record.Evaluation) error {
			_, err := s.Cancel(ctx, r)
			return err
		}},
		{"pause", pauseScript, func(ctx context.Context, s *Store, r record.Evaluation) error {
			_, err := s.Pause(ctx, r.ID, "")
			return err
		}},
		{"pause of a provider", pauseProviderScript, func(ctx context.Context, s *Store, r record.Evaluation) error {
			_, _, err := s.PauseProvider(ctx, r.ID, "p", record.Pause{})
			return err
		}},
	} {
		for _, deleted := range []bool{true, false} {
			name := tt.name + ", then a submission"
			if deleted {
				name = tt.name + ", then a deletion and a submission"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				eachRedis(t, func(t *testing.T, s *Store) {
					ctx, r := t.Context(), create(t, s)
					if err := tt.script.Load(ctx, s.client).Err(); err != nil {
						t.Fatal(err)
					}
					hook := &late{script: tt.script}
					Universal(s).AddHook(hook)
					if err := tt.command(ctx, s, r); !errors.Is(err, errLate) {
						t.Fatalf("the command ended with %v, want that it is late", err)
					}

					if deleted {
						if err := s.Delete(ctx, r.ID); err != nil {
							t.Fatal(err)
						}
						again, e, texts := example()
						again.Created = again.Created.Add(time.Second)
						if _, err := s.Create(ctx, again, e, texts, nil); err != nil {
							t.Fatal(err)
						}
					} else if err := s.Submitted(ctx, r.ID); err != nil {
						t.Fatal(err)
					}
					if err := hook.deliver(); err != nil {
						t.Fatal(err)
					}

					now, err := s.Evaluation(ctx, r.ID)
					if err != nil || now.Status != record.StatusActive || len(now.Paused) > 0 {
						t.Errorf("the evaluation is %q with paused providers %v, %v; want it active", now.Status, now.Paused, err)
					}
				})
			})
		}
	}
}

// A deletion that arrives twice leaves alone what was submitted between.
func TestDeletionDeliveredTwice(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, s *Store) {
		ctx, r := t.Context(), create(t, s)
		if err := deleteScript.Load(ctx, s.client).Err(); err != nil {
			t.Fatal(err)
		}
		Universal(s).AddHook(&twice{script: deleteScript, between: func() {
			again, e, texts := example()
			again.Created = again.Created.Add(time.Second)
			if _, err := s.Create(ctx, again, e, texts, nil); err != nil {
				t.Error(err)
			}
		}})
		if err := s.Delete(ctx, r.ID); !errors.Is(err, ErrReplaced) {
			t.Errorf("the deletion ended with %v, want that another evaluation replaced it", err)
		}
		if _, err := s.Evaluation(ctx, r.ID); err != nil {
			t.Errorf("the evaluation that was submitted between: %v", err)
		}
		if listed, err := s.Evaluations(ctx); err != nil || len(listed) != 1 {
			t.Errorf("listed %v, %v; want the evaluation", listed, err)
		}
	})
}

// An evaluation is taken off a list by a command that names its listing: delivered after the
// evaluation was listed again, it takes nothing off.
func TestLateRemovalFromAList(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		command func(context.Context, *Store, record.Evaluation) error
	}{
		{"delete", func(ctx context.Context, s *Store, r record.Evaluation) error { return s.Delete(ctx, r.ID) }},
		{"deactivate", func(ctx context.Context, s *Store, r record.Evaluation) error { return s.Deactivate(ctx, r.ID) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachRedis(t, func(t *testing.T, s *Store) {
				ctx, r := t.Context(), create(t, s)
				if err := s.Activate(ctx, r.ID); err != nil {
					t.Fatal(err)
				}
				if err := unlistScript.Load(ctx, s.client).Err(); err != nil {
					t.Fatal(err)
				}
				hook := &late{script: unlistScript}
				Universal(s).AddHook(hook)
				if err := tt.command(ctx, s, r); !errors.Is(err, errLate) {
					t.Fatalf("the command ended with %v, want that it is late", err)
				}
				if err := tt.command(ctx, s, r); err != nil { // it is sent again
					t.Fatal(err)
				}

				again, e, texts := example()
				if _, err := s.Create(ctx, again, e, texts, nil); err != nil {
					t.Fatal(err)
				}
				if err := s.Activate(ctx, r.ID); err != nil {
					t.Fatal(err)
				}
				if err := hook.deliver(); err != nil {
					t.Fatal(err)
				}
				listed, err := s.Evaluations(ctx)
				if err != nil || len(listed) != 1 {
					t.Errorf("listed %v, %v; want the evaluation", listed, err)
				}
				if active, err := s.IsActive(ctx, r.ID); err != nil || !active {
					t.Errorf("active: %t, %v", active, err)
				}

				if err := s.Deactivate(ctx, r.ID); err != nil {
					t.Fatal(err)
				}
				if err := s.Delete(ctx, r.ID); err != nil {
					t.Fatal(err)
				}
				if left := s.client.Keys(ctx, "ef:*").Val(); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			})
		})
	}
}
