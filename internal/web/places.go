package web

import (
	"net/http"
	"sync"
)

// places limits what clients hold at the same time, in total and each: one client leaves room for others. It is safe
// for concurrent use.
type places struct {
	most, each int

	mu    sync.Mutex // guards all below
	taken int
	of    map[string]int // by user
}

func newPlaces(most, each int) *places { return &places{most: most, each: each, of: map[string]int{}} }

// enter takes a place for a user and returns leave, which gives it back; ok is false if none is free.
func (p *places) enter(who string) (leave func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= p.most || p.of[who] >= p.each {
		return nil, false
	}
	p.taken++
	p.of[who]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.taken--
		if p.of[who]--; p.of[who] == 0 {
			delete(p.of, who)
		}
	}, true
}

// userOf returns the name under which a request counts: that of the login, or else the address. Behind a proxy without
// logins, all users share its address.
func userOf(r *http.Request) string {
	if name, ok := r.Context().Value(user{}).(string); ok {
		return "user " + name
	}
	return "address " + addressOf(r.RemoteAddr)
}
