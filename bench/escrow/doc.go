// Package escrow simulates a limit that spans several Redis servers and stays exact.
//
// evalfleet keeps everything that admission decides on in one hash slot, so that one script can
// take all limits of a call or none. A fleet that outgrows one core of Redis can shard the
// limiter by account. Limits of one account stay in one shard; only a limit that spans accounts,
// such as the fleet's max_concurrency, needs more. This package is the protocol that docs/scale.md
// proposes for it, after the escrow method of O'Neil (1986, doi:10.1145/7239.7265): each shard
// owns an allotment of the limit and admits calls against that alone, and a ledger moves
// allotments between shards. The sum of allotments never exceeds the limit, because a shard gives
// before the ledger lends again.
//
// It is a simulation only. It shows that the protocol survives lost, delayed and repeated
// messages and servers that forget, before anyone builds it; each of its safeguards can be left
// out, to show that the simulation notices.
package escrow
