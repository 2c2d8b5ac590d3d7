package plan

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"github.com/evalfleet/evalfleet/eval"
)

// newSeed derives a pseudo-random number from the evaluation's identity and a purpose, so that every process draws
// the same sample and the same orders.
func newSeed(id eval.ID, purpose string) uint64 {
	sum := sha256.Sum256([]byte(purpose + " of " + string(id)))
	return binary.BigEndian.Uint64(sum[:])
}

// coin returns a fair pseudo-random choice for every pair of documents.
func coin(seed uint64) func(a, b int) bool {
	return func(a, b int) bool {
		return mix(mix(seed+uint64(a))+uint64(b))&1 == 1
	}
}

// mix spreads every bit of x over all 64 bits. It is the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast
// splittable pseudorandom number generators", 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// permutation is a pseudo-random permutation of [0, n) that computes each entry separately. It is a balanced Feistel
// network over the next even number of bits, with cycle walking. See Black and Rogaway, "Ciphers with arbitrary
// finite domains" (CT-RSA 2002). The domain of the network is less than four times n, so an entry takes less than
// four passes on average.
type permutation struct {
	n    uint64
	half int        // bits of each half
	keys [10]uint64 // one for each round
}

func newPermutation(seed uint64, n int) permutation {
	p := permutation{n: uint64(n), half: max(1, (bits.Len64(uint64(n)-1)+1)/2)}
	for round := range p.keys {
		p.keys[round] = mix(seed + uint64(round))
	}
	return p
}

// at returns the i-th entry; i must be in [0, n).
func (p permutation) at(i int) int {
	x := uint64(i)
	for {
		if x = p.network(x); x < p.n {
			return int(x)
		}
	}
}

func (p permutation) network(x uint64) uint64 {
	mask := uint64(1)<<p.half - 1
	left, right := x>>p.half, x&mask
	for _, key := range p.keys {
		left, right = right, left^mix(right^key)&mask
	}
	return left<<p.half | right
}
