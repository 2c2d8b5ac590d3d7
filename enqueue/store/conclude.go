package store

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

var (
	//go:embed lua/conclude.lua
	concludeSource string

	concludeScript = redis.NewScript(revisionSource + endedSource + concludeSource)
)

// Conclude stores how an ended evaluation ended. It does nothing for an active one.
func (s *Store) Conclude(ctx context.Context, id eval.ID, result record.Result) error {
	text, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("encode the result of %s: %w", id, err)
	}
	err = s.means(ctx, id, func(meant record.Revision) (stale bool, err error) {
		answer, err := concludeScript.Run(ctx, s.client, []string{s.keys.Record(id)}, string(meant), text).Int()
		return answer == -1, err
	})
	if err != nil && !errors.Is(err, ErrReplaced) {
		return fmt.Errorf("note the result of %s: %w", id, err)
	}
	return nil
}

// Concluded returns which of some evaluations have a result in their records.
func (s *Store) Concluded(ctx context.Context, ids []eval.ID) (map[eval.ID]bool, error) {
	pipe := s.client.Pipeline()
	asked := make([]*redis.BoolCmd, len(ids))
	for i, id := range ids {
		asked[i] = pipe.HExists(ctx, s.keys.Record(id), fieldResult)
	}
	ask(ctx, pipe)
	concluded := map[eval.ID]bool{}
	for i, cmd := range asked {
		if err := cmd.Err(); err != nil && !ofOneKey(err) {
			return nil, fmt.Errorf("read whether %s has a result: %w", ids[i], err)
		}
		concluded[ids[i]] = cmd.Val()
	}
	return concluded, nil
}

// A notice is claimed for noticeClaim while it is being sent, and remembered for noticeKept
// afterwards.
const (
	noticeClaim = 2 * time.Minute
	noticeKept  = endedLife
)

// ClaimNotice reports whether this process must send a notice: no other process has sent it, or is
// sending it.
func (s *Store) ClaimNotice(ctx context.Context, id eval.ID, notice string) (bool, error) {
	claimed, err := acquire(ctx, s.client, s.keys.Notice(id, notice), 1, noticeClaim)
	if err != nil {
		return false, fmt.Errorf("claim notice %s of %s: %w", notice, id, err)
	}
	return claimed, nil
}

// KeepNotice stores that a claimed notice was sent, or that it will not be sent.
func (s *Store) KeepNotice(ctx context.Context, id eval.ID, notice string) error {
	if err := s.client.Expire(ctx, s.keys.Notice(id, notice), noticeKept).Err(); err != nil {
		return fmt.Errorf("keep notice %s of %s: %w", notice, id, err)
	}
	return nil
}
