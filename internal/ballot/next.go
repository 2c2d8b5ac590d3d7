package ballot

import (
	"context"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
)

// Said holds what people have said about the pairs of a ballot.
type Said struct {
	ballot *Ballot
	voters map[Pair][]string                    // who gave a verdict
	taken  map[Pair]int                         // verdicts that count against the people who are asked about a pair
	own    map[string]map[Pair]results.PageVote // by voter: what they did on the page
	last   map[string]results.PageVote          // by voter: the last vote that is not undone, also on other pairs
}

// Read reads what people have said, in a file and on the page.
func (b *Ballot) Read(ctx context.Context, reader results.Reader) (*Said, error) {
	documents := b.Evaluation.Plan.Documents
	named := map[[2]string]Pair{}
	for _, pair := range b.Pairs {
		named[[2]string{documents[pair[0]].ID, documents[pair[1]].ID}] = pair
	}

	s := &Said{
		ballot: b, voters: map[Pair][]string{}, taken: map[Pair]int{}, own: map[string]map[Pair]results.PageVote{},
		last: map[string]results.PageVote{},
	}
	for vote, err := range reader.Votes(ctx, b.Evaluation.ID) {
		if err != nil {
			return nil, err
		}
		if pair, on := named[[2]string{vote.Document1, vote.Document2}]; on {
			s.voters[pair] = append(s.voters[pair], vote.Annotator)
			if b.counts(vote) {
				s.taken[pair]++
			}
		}
	}
	for vote, err := range reader.PageVotes(ctx, b.Evaluation.ID) {
		if err != nil {
			return nil, err
		}
		if last, known := s.last[vote.Annotator]; vote.Said != "" && (!known || vote.At.After(last.At)) {
			s.last[vote.Annotator] = vote
		}
		if pair, on := named[[2]string{vote.Document1, vote.Document2}]; on {
			if s.own[vote.Annotator] == nil {
				s.own[vote.Annotator] = map[Pair]results.PageVote{}
			}
			s.own[vote.Annotator][pair] = vote
		}
	}
	return s, nil
}

// counts reports whether a verdict on a pair leaves one person less to ask about it. In a sample, only those that were given
// for a sample do: without the pairs that have others, such as the contested ones, it would be a sample of the rest.
func (b *Ballot) counts(vote results.VoteRow) bool {
	return b.Chosen != results.ChosenSample || vote.Chosen == results.ChosenSample
}

// Turn is what a voter is asked next.
type Turn struct {
	Pair
	Found   bool // otherwise nothing is left for the voter
	Changes int  // what the voter did about the pair before: results.PageVote.Changes
	Done    int  // pairs of the ballot that the voter has voted on, or skipped
	Left    int  // pairs that are left for the voter, with this one
}

// Next returns what a voter is asked. Each pair is for up to perPair people; pairs without votes come first. shown
// returns how many other people are looking at a pair. A pair whose vote was undone comes before all others.
func (s *Said) Next(voter string, perPair int, shown func(Pair) int) Turn {
	var turn Turn
	fewest := 0
	for _, pair := range s.ballot.Pairs {
		own, seen := s.own[voter][pair]
		switch {
		case seen && own.Said != "" || !seen && slices.Contains(s.voters[pair], voter):
			turn.Done++
			continue
		case seen: // undone
			turn.Left++
			if !turn.Found || turn.Changes == 0 {
				turn.Pair, turn.Found, turn.Changes = pair, true, own.Changes
			}
			continue
		}

		taken := s.taken[pair] + shown(pair)
		if taken >= perPair {
			continue
		}
		turn.Left++
		if turn.Changes == 0 && (!turn.Found || taken < fewest) {
			turn.Pair, turn.Found, fewest = pair, true, taken
		}
	}
	return turn
}

// Last returns the voter's last vote, or skipped pair, on the page, whether the pair is on the ballot or not; ok is false
// if there is none.
func (s *Said) Last(voter string) (pair Pair, vote results.PageVote, ok bool) {
	vote, ok = s.last[voter]
	documents := s.ballot.Evaluation.Plan.Documents
	for k, id := range []string{vote.Document1, vote.Document2} {
		pair[k] = slices.IndexFunc(documents, func(d eval.Document) bool { return d.ID == id })
	}
	return pair, vote, ok && pair[0] >= 0 && pair[1] >= 0
}
