package enqueue

import "time"

// The window of a queue: how many of its tasks wait in Redis, pushed and not begun.
const (
	windowTime    = 30 * time.Second // how long a window lasts at the queue's pace
	smallWindow   = 20
	firstWindow   = 500 // before the pace is known
	largestWindow = 2000
	pushBatch     = 500              // tasks per pipeline
	paceKept      = 10 * time.Minute // after the last look at the queue
)

// pace measures how fast a queue's runs end.
type pace struct {
	ended     int
	at        time.Time
	perSecond float64 // negative: unknown
}

// nextTick returns when to look again at the busy evaluations. By then, the fastest queue should
// have used up between an eighth and a half of its window.
func (t *TopUp) nextTick(busy int) time.Duration {
	switch {
	case t.used > 0.75: // faster than can be measured
		t.next = fastTick
	case t.used > 0.5:
		t.next = max(t.next/2, fastTick)
	case t.used < 0.125:
		t.next = min(2*t.next, longest(busy))
	}
	return t.next
}

func (p *pace) window() int {
	if p.perSecond < 0 {
		return firstWindow
	}
	return int(min(max(p.perSecond*windowTime.Seconds(), smallWindow), largestWindow))
}

// measure updates the queue's pace and returns its window.
func (t *TopUp) measure(queue string, shares []*share) int {
	ended := 0 // number of tasks
	for _, s := range shares {
		ended += int(float64(s.ended) / s.perTask)
	}
	now := time.Now()
	p, ok := t.pace[queue]
	if !ok {
		p = &pace{ended: ended, at: now, perSecond: -1}
		t.pace[queue] = p
	}

	if elapsed := now.Sub(p.at); elapsed >= paceTime {
		current := max(float64(ended-p.ended), 0) / elapsed.Seconds()
		if p.perSecond < 0 {
			p.perSecond = current
		} else { // half of the remembered rate fades in about 3 s
			weight := min(elapsed.Seconds()/4, 1)
			p.perSecond += weight * (current - p.perSecond)
		}
		p.ended, p.at = ended, now
	}

	if ended == 0 {
		return firstWindow
	}
	return p.window()
}
