package ballot

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/binary"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
)

// Ticket identifies a vote before it is given: the pair that a voter is shown, why, and what the voter did about it before.
type Ticket struct {
	Pair    Pair
	Chosen  string
	Changes int // results.PageVote.Changes of what the voter was shown
}

// Tickets encrypts the tickets of one voter, so that they tell nothing about the documents, and no other voter can use
// them. The same ticket is always the same text: tabs, and pages loaded again, have the same.
type Tickets struct{ block cipher.Block }

// TicketsOf returns the tickets of a voter. store is the identity of the results store.
func TicketsOf(store string, id eval.ID, voter string) Tickets {
	block, err := aes.NewCipher(hash("ticket", store, string(id), voter))
	if err != nil {
		panic(err) // the key is as long as it must be
	}
	return Tickets{block}
}

// chosen numbers the reasons for which a pair is shown.
var chosen = []string{results.ChosenSample, results.ChosenContested, results.ChosenNarrow}

// A ticket is one block: two positions, the reason, the number of changes, and zeros by which others are recognized.
const (
	atChosen  = 8
	atChanges = 9
	atZeros   = 12
	most24    = 1<<24 - 1
)

// Write encrypts a ticket.
func (t Tickets) Write(of Ticket) string {
	var block [aes.BlockSize]byte
	binary.BigEndian.PutUint32(block[:], uint32(of.Pair[0]))
	binary.BigEndian.PutUint32(block[4:], uint32(of.Pair[1]))
	block[atChosen] = byte(slices.Index(chosen, of.Chosen))
	changes := min(of.Changes, most24)
	block[atChanges], block[atChanges+1], block[atChanges+2] = byte(changes>>16), byte(changes>>8), byte(changes)
	t.block.Encrypt(block[:], block[:])
	return base64.RawURLEncoding.EncodeToString(block[:])
}

// Read decrypts a ticket for an evaluation with that many documents; ok is false if it is not one of the voter's.
func (t Tickets) Read(text string, documents int) (of Ticket, ok bool) {
	block, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(block) != aes.BlockSize {
		return of, false
	}
	t.block.Decrypt(block, block)
	of.Pair = Pair{int(binary.BigEndian.Uint32(block)), int(binary.BigEndian.Uint32(block[4:]))}
	of.Changes = int(block[atChanges])<<16 | int(block[atChanges+1])<<8 | int(block[atChanges+2])
	known := int(block[atChosen]) < len(chosen)
	if !known || binary.BigEndian.Uint32(block[atZeros:]) != 0 || max(of.Pair[0], of.Pair[1]) >= documents {
		return of, false
	}
	of.Chosen = chosen[block[atChosen]]
	return of, true
}
