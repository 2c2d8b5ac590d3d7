package eval

// Message is one message of a conversation.
type Message struct {
	Role    string // "system", "user" or "assistant"
	Content string
	Images  []Shown // by their Offset, ascending
}

// Shown is an image within a message.
type Shown struct {
	Image
	Offset  int    // in the message's content, where it is shown
	Content string // what is stored under its hash
	Detail  string // how closely the model looks, in OpenAI's words; empty: its default
}

// Conversation is a prompt as its author wrote it, in parsed form.
type Conversation struct {
	// Turns are the user's messages, with one call for each turn. A turn follows the answers to the turns before it.
	// There is at least one.
	Turns [][]Message
	// Complete asks the model to continue the text of the only turn, instead of answering it.
	Complete bool
}

// At returns the messages of the call that follows the given answers.
func (c Conversation) At(answers []string) []Message {
	var said []Message
	for i, answer := range answers {
		said = append(append(said, c.Turns[i]...), Message{Role: "assistant", Content: answer})
	}
	return append(said, c.Turns[len(answers)]...)
}
