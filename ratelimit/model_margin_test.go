package ratelimit

import "math"

// marginSeen is the margin of a provider, and the greatest wanted since a time.
type marginSeen struct {
	send, path         int64
	seenSend, seenPath int64
	since, born        int64
}

// margin is the margin script; rates are those that keep it.
func (m *model) margin(provider string, wanted Margin, rates []*rule) (changed int64, now marginSeen) {
	send, path := wanted.Send.Microseconds(), wanted.Path.Microseconds()
	s, known := m.margins[provider]
	if !known {
		s = &marginSeen{send: mostSend.Microseconds(), path: path, since: m.now, born: m.now}
		m.margins[provider] = s
	}
	was := *s
	s.since, s.born = min(s.since, m.now), min(s.born, m.now)
	s.seenSend, s.seenPath = max(s.seenSend, send), max(s.seenPath, path)
	s.send, s.path = max(s.send, send), max(s.path, path)
	seen := m.now - s.since
	if seen >= firstWatch.Microseconds() && (seen >= marginWatch.Microseconds() || 3*seen >= m.now-s.born) {
		*s = marginSeen{s.seenSend, s.seenPath, send, path, m.now, s.born}
	}
	m.marginsForgotten = m.now + 24*hour
	if known && s.send == was.send && s.path == was.path {
		return 0, *s
	}
	before, after := Margin{micros(was.send), micros(was.path)}, Margin{micros(s.send), micros(s.path)}
	for _, r := range rates {
		if a := m.account(r.id); a.arrival != 0 {
			a.arrival += r.pauses().shift(before, after)
		}
	}
	m.changed("")
	return 1, *s
}

// empty moves a rate's arrival time to a time, when it is earlier.
func (a *account) empty(now, arrival int64) {
	if a.arrival < arrival {
		a.arrival = arrival
		a.idle = now + ceilDiv(arrival-now, second)*second + hour
	}
}

// shift returns for how long the rate pauses when its margin changes from was to is, in µs.
func (p marginRate) shift(was, is Margin) int64 {
	pause := max(0, was.Total()-is.Total()) + max(0, is.Path-was.Path)
	rise := max(0, is.Total()-was.Total())
	return int64(math.Ceil(float64(pause.Microseconds())*p.Stretch + float64(rise.Microseconds())*p.Gain + p.Step))
}
