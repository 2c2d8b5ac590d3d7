package view

import "time"

// The rate is computed over the last paceOver; marks closer than markEvery are not added.
const (
	paceOver  = 15 * time.Second
	markEvery = 500 * time.Millisecond
)

// Pace computes how fast runs end from how many had ended at earlier times. Its zero value knows nothing.
type Pace struct {
	marks []mark
	last  mark
}

// mark is how many runs had ended at a time.
type mark struct {
	at   time.Time
	done int
}

// Restart forgets earlier observations.
func (p *Pace) Restart(at time.Time, done int) {
	p.marks = nil
	p.Note(at, done)
}

// Note records how many runs have ended at a time.
func (p *Pace) Note(at time.Time, done int) {
	p.last = mark{at, done}
	if n := len(p.marks); n == 0 || at.Sub(p.marks[n-1].at) >= markEvery {
		p.marks = append(p.marks, p.last)
	}
	for len(p.marks) > 2 && at.Sub(p.marks[1].at) > paceOver {
		p.marks = p.marks[1:]
	}
}

// PerSecond returns how many runs end per second; known is false while it is too soon to tell.
func (p *Pace) PerSecond() (rate float64, known bool) {
	if len(p.marks) == 0 {
		return 0, false
	}
	elapsed := p.last.at.Sub(p.marks[0].at)
	if elapsed < markEvery {
		return 0, false
	}
	return float64(p.last.done-p.marks[0].done) / elapsed.Seconds(), true
}
