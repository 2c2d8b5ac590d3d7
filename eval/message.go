package eval

// Message is one message of a conversation.
type Message struct {
	Role    string // "system", "user" or "assistant"
	Content string
}

// Conversation is a prompt as its author wrote it, parsed.
type Conversation struct {
	// Turns are the user's messages, one call each: every turn follows the answers to those
	// before it. There is at least one.
	Turns [][]Message
	// Complete asks for the continuation of the one turn's one text, and not for an
	// answer to it.
	Complete bool
}

// At returns the messages of the turn that follows so many answers.
func (c Conversation) At(answers []string) []Message {
	var said []Message
	for i, answer := range answers {
		said = append(append(said, c.Turns[i]...), Message{Role: "assistant", Content: answer})
	}
	return append(said, c.Turns[len(answers)]...)
}
