package web

import (
	"fmt"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/eval"
)

// The pace is taken over the last paceOver; marks closer than markEvery say
// nothing new.
const (
	paceOver  = 30 * time.Second
	markEvery = 500 * time.Millisecond
)

// paces remembers how far evaluations were when pages were asked for, which is
// what their pace is told from.
type paces struct {
	mu sync.Mutex
	of map[eval.ID][]mark
}

type mark struct {
	at   time.Time
	done int
}

// note marks how far an active evaluation is and completes its pace and what is
// left.
func (p *paces) note(e *Evaluation, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	marks := p.of[e.ID]
	if n := len(marks); n == 0 || at.Sub(marks[n-1].at) >= markEvery {
		marks = append(marks, mark{at, e.All.Done})
	}
	for len(marks) > 1 && at.Sub(marks[0].at) > paceOver {
		marks = marks[1:]
	}
	p.of[e.ID] = marks
	elapsed, done := at.Sub(marks[0].at).Seconds(), e.All.Done-marks[0].done
	if elapsed < 1 || done <= 0 {
		return
	}
	perSecond := float64(done) / elapsed
	if perSecond >= 0.5 {
		e.Pace = fmt.Sprintf("%.1f/s", perSecond)
	} else {
		e.Pace = fmt.Sprintf("%.1f/min", 60*perSecond)
	}
	e.Left = clock(time.Duration(float64(e.All.Runs-e.All.Done) / perSecond * float64(time.Second)))
}

// forget drops what is no longer active.
func (p *paces) forget(id eval.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, id)
}

// clock writes a duration as m:ss, or h:mm:ss.
func clock(d time.Duration) string {
	seconds := int(d.Round(time.Second).Seconds())
	if seconds < 3600 {
		return fmt.Sprintf("%d:%02d", seconds/60, seconds%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
}
