package simulator

import "hash/fnv"

// Everything random is drawn from hashes of the request. So the same seed and prompt have the same
// result in whatever order calls arrive.

// hashOf returns a hash of parts and of the boundaries between them.
func hashOf(parts ...string) uint64 {
	h := fnv.New64a()
	for _, part := range parts {
		h.Write([]byte(part))
		h.Write([]byte{0xff}) // not a byte of UTF-8
	}
	return mix(h.Sum64())
}

// mix spreads a hash whose high bits are weak over all of its bits.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// unit maps a hash to [0, 1).
func unit(h uint64) float64 { return float64(h>>11) / (1 << 53) }
