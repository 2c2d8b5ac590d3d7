package eval

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVotesHaveOneText(t *testing.T) {
	t.Parallel()
	votes := []Vote{
		{Annotator: "bo", First: "a", Second: "b", Winner: "b"},
		{Annotator: "anna", First: "b", Second: "a", Winner: Tie},
		{Annotator: "anna", First: "a", Second: "<c> & \"d\"\n", Winner: "<c> & \"d\"\n"},
	}
	text := EncodeVotes(votes)
	want := []Vote{
		{Annotator: "anna", First: "<c> & \"d\"\n", Second: "a", Winner: "<c> & \"d\"\n"},
		{Annotator: "anna", First: "a", Second: "b", Winner: Tie},
		{Annotator: "bo", First: "a", Second: "b", Winner: "b"},
	}
	got, err := DecodeVotes(text)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("decoded: %v (-want +got):\n%s", err, diff)
	}
	slices.Reverse(votes)
	if again := EncodeVotes(votes); again != text {
		t.Errorf("in another order: got\n%s\nwant\n%s", again, text)
	}
	if got, err := DecodeVotes(""); err != nil || got != nil {
		t.Errorf("no votes: got %v, %v", got, err)
	}
	if _, err := DecodeVotes(text + "{"); err == nil {
		t.Error("a text that breaks off was read")
	}
}
