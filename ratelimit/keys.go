package ratelimit

// keys builds the limiter's Redis keys. They share one hash tag, so that one
// script may touch all of them; docs/formats.md lists them.
type keys struct{ tag string }

func newKeys(namespace string) keys { return keys{"{" + namespace + "}"} }

func (k keys) registry() string            { return k.tag + ":limits" }
func (k keys) changes() string             { return k.tag + ":changes" }
func (k keys) former() string              { return k.tag + ":former" }
func (k keys) cooldowns() string           { return k.tag + ":cooldowns" }
func (k keys) troubles() string            { return k.tag + ":troubles" }
func (k keys) answers() string             { return k.tag + ":answers" }
func (k keys) margins() string             { return k.tag + ":margins" }
func (k keys) alive() string               { return k.tag + ":alive" }
func (k keys) ledger(worker string) string { return k.tag + ":l:" + worker }
func (k keys) waiters(limit string) string { return k.tag + ":w:" + limit }
func (k keys) background() string          { return k.tag + ":background" }
func (k keys) over(call string) string     { return k.tag + ":over:" + call }
func (k keys) window(limit string) string  { return k.tag + ":u:" + limit }
func (k keys) quota(limit string) string   { return k.tag + ":q:" + limit }
func (k keys) money(limit string) string   { return k.tag + ":m:" + limit }
func (k keys) cut(limit string) string     { return k.tag + ":a:" + limit }
func (k keys) samples(model string) string { return k.tag + ":t:" + model }
func (k keys) leases(limit string) string  { return k.tag + ":s:" + limit }
func (k keys) wake(worker string) string   { return k.tag + ":wake:" + worker }

// rate returns the key that redis_rate uses for the name "{ef}:<limit>".
func (k keys) rate(limit string) string { return "rate:" + k.tag + ":" + limit }
