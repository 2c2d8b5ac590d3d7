package ratelimit

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// randomHistory is one of so many steps.
func randomHistory(seed uint64, steps int) []byte {
	data := make([]byte, steps*historyStep)
	source := rand.NewChaCha8([32]byte(binary.LittleEndian.AppendUint64(make([]byte, 24), seed)))
	_, _ = source.Read(data)
	return data
}

// shrink leaves steps out as long as the rest fails, too.
func shrink(s *stage, data []byte, also some, deadline time.Time) []byte {
	for size := len(data) / historyStep / 2; size > 0; size /= 2 {
		for from := 0; from < len(data)/historyStep; {
			to := min(len(data), (from+size)*historyStep)
			shorter := slices.Concat(data[:from*historyStep], data[to:])
			if time.Now().After(deadline) {
				return data
			}
			if _, err := play(s, shorter, also); err != nil {
				data = shorter
			} else {
				from += size
			}
		}
	}
	return data
}

// report fails the test with the shortest history that was found to fail.
func report(t *testing.T, s *stage, data []byte, also some, first error) {
	t.Helper()
	data = shrink(s, data, also, time.Now().Add(time.Minute))
	h, err := play(s, data, also)
	if err == nil {
		t.Fatalf("on %s, but not again: %v", s.name, first)
	}
	t.Fatalf("on %s, in %d steps, with %q: %v\n%s\nfor testdata/fuzz:\ngo test fuzz v1\n[]byte(%q)",
		s.name, h.steps, also, err, strings.Join(h.log, "\n"), data)
}

// TestModelAgrees plays random histories. These dozen, the four with batches and the four with accounts
// see each of its faults in tools/faults, which one in ten to one in forty does.
func TestModelAgrees(t *testing.T) {
	t.Parallel()
	const first, histories, withBatches, withAccounts = uint64(12), uint64(12), uint64(4), uint64(4)
	for _, make := range []func(testing.TB) *stage{embeddedStage, realStage} {
		s := make(t)
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			steps := 0
			for seed := first; seed < first+histories+withBatches+withAccounts; seed++ {
				data, also := randomHistory(seed, 150), nothing
				switch {
				case seed >= first+histories+withBatches:
					also = accounts
				case seed >= first+histories:
					also = batches
				}
				h, err := play(s, data, also)
				if err != nil {
					t.Logf("seed %d", seed)
					report(t, s, data, also, err)
				}
				steps += h.steps
			}
			t.Logf("%d histories, %d steps", histories+withBatches+withAccounts, steps)
		})
	}
}

// FuzzAdmission looks for histories that go other ways; `make fuzz` gives it, FuzzBatches and
// FuzzAccounts ten minutes each.
func FuzzAdmission(f *testing.F) { fuzzHistories(f, nothing) }

// FuzzBatches does the same for histories with batches.
func FuzzBatches(f *testing.F) { fuzzHistories(f, batches) }

// FuzzAccounts does the same for histories with calls that one of several accounts may answer.
func FuzzAccounts(f *testing.F) { fuzzHistories(f, accounts) }

func fuzzHistories(f *testing.F, also some) {
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		f.Add(randomHistory(seed, 60))
	}
	stages := []*stage{realStage(f), embeddedStage(f)}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), 200*historyStep)]
		s := stages[len(data)/historyStep%2]
		if h, err := play(s, data, also); err != nil {
			t.Fatalf("on %s: %v\n%s", s.name, err, strings.Join(h.log, "\n"))
		}
	})
}
