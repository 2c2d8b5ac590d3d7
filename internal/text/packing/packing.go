// Package packing compresses the texts and plans that Redis and results stores hold, with zstd.
package packing

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// MaxText bounds what is unpacked, in bytes. A few kilobytes of crafted input could otherwise
// unpack to any number of gigabytes.
const MaxText = 512 << 20

// The process shares one of each. They are safe for concurrent use with whole-buffer calls. Each
// keeps megabytes, and a controller has a thousand results stores open.
var (
	encoder, _ = zstd.NewWriter(nil, zstd.WithLowerEncoderMem(true))
	decoder, _ = zstd.NewReader(nil, zstd.WithDecoderMaxMemory(MaxText))
)

// Pack compresses raw.
func Pack(raw []byte) []byte { return encoder.EncodeAll(raw, nil) }

// Unpack returns the input of Pack. It fails if packed is damaged, or unpacks to more than MaxText
// bytes.
func Unpack(packed []byte) ([]byte, error) {
	raw, err := decoder.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return raw, nil
}
