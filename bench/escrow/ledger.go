package escrow

// Safeguard is a part of the protocol that can be left out.
type Safeguard int

// The safeguards of the protocol.
const (
	GiveFirst    Safeguard = iota + 1 // a shard reduces its allotment before it tells the ledger
	Sequence                          // the ledger executes each message once
	Incarnation                       // messages of a shard from before it lost its memory are void
	Epoch                             // messages to a ledger from before it lost its memory are void
	AllAssert                         // after losing its memory, a ledger lends only once all shards have reported
	AskAfterLoss                      // a shard that lost its memory asks for its allotment
)

// Safeguards lists all of them.
var Safeguards = []Safeguard{GiveFirst, Sequence, Incarnation, Epoch, AllAssert, AskAfterLoss}

func (s Safeguard) String() string {
	return [...]string{"", "give first", "sequence numbers", "incarnations", "epochs", "all assert", "ask after a loss"}[s]
}

// kind is what a message asks for.
type kind int

const (
	take   kind = iota // lend me n
	give               // I have reduced my allotment by n
	assert             // in your epoch, my allotment is n
	hello              // I lost my memory, and n calls are in flight
)

// message is a shard's request, or with reply set, the ledger's answer to it.
type message struct {
	kind        kind
	shard       int
	epoch       int // the ledger's epoch, as far as the shard knows
	incarnation int
	sequence    int
	nonce       int // of hello
	n           int
	reply       bool
	stale       bool // the answer: another epoch is in force
}

// account is the ledger's record of a shard.
type account struct {
	lent        int
	incarnation int
	sequence    int
	nonce       int
	asserted    bool
	last        message // the answer to the message with this sequence number
}

// ledger lends a limit to shards. In Redis it would be one hash, and handle would be one script.
type ledger struct {
	limit    int
	epoch    int
	accounts []account
	without  Safeguard
}

// pool returns how much can be lent: the limit without the allotments. It is 0 until every shard has reported its
// allotment.
func (l *ledger) pool() int {
	pool := l.limit
	for _, a := range l.accounts {
		if !a.asserted && l.without != AllAssert {
			return 0
		}
		pool -= a.lent
	}
	return max(0, pool)
}

// handle executes a message and returns the answer; ok is false if the message is void.
func (l *ledger) handle(m message) (answer message, ok bool) {
	a := &l.accounts[m.shard]
	answer = m
	answer.reply = true
	if m.epoch != l.epoch && l.without != Epoch {
		answer.epoch, answer.stale = l.epoch, true
		return answer, true
	}

	switch m.kind {
	case hello:
		if !a.asserted {
			a.lent, a.asserted = m.n, true
		}
		if a.nonce != m.nonce {
			a.nonce = m.nonce
			a.incarnation++
		}
		answer.incarnation, answer.sequence, answer.n = a.incarnation, a.sequence, a.lent
		return answer, true
	case assert:
		if !a.asserted {
			a.lent, a.asserted, a.incarnation, a.sequence = m.n, true, m.incarnation, m.sequence
		}
		return answer, true
	}

	switch {
	case !a.asserted:
		answer.stale = true
		return answer, true
	case m.incarnation != a.incarnation && l.without != Incarnation:
		return answer, false
	case m.sequence == a.sequence && l.without != Sequence:
		return a.last, true
	case m.sequence != a.sequence+1 && l.without != Sequence:
		return answer, false
	}

	switch m.kind {
	case take:
		answer.n = min(m.n, l.pool())
		a.lent += answer.n
	case give:
		a.lent -= m.n
	}

	a.sequence, a.last = m.sequence, answer
	return answer, true
}
