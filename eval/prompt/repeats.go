package prompt

import "slices"

// repeats returns Prompt.Repeats of a prompt whose first document is shown in a block of so many bytes.
func (r rendered) repeats(block int) []Position {
	document := Position{r.documents.Message, r.documents.Offset + block}
	var ends []Position
	for _, end := range []Position{r.varies, r.documents, document} {
		switch {
		case end.Offset == 0 && end.Message == 0: // nothing comes before
			continue
		case end.Offset == 0:
			end = Position{end.Message - 1, len(r.messages[end.Message-1].Content)}
		}
		if !slices.Contains(ends, end) {
			ends = append(ends, end)
		}
	}
	return ends
}
