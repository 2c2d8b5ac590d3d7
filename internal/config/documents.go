package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// documentSet collects an evaluation's documents. Its positions are those of eval.Evaluation before
// it is normalised.
type documentSet struct {
	draft     *draft
	ids       map[string]place    // where each document was found
	items     map[string]int      // position of each item
	asked     map[[2]string]place // where each item's question and other facts were found
	answers   map[[2]string][]int // documents by item and candidate
	byItem    map[string][]string // candidates of each item
	empty     int
	sameNames bool // the fix for duplicate ids has been shown
	reworded  int  // questions that differ from that of their item's first document
	file      bool // an evaluation file names the documents
}

type foundDocument struct {
	id, item, candidate, text string
	turns                     bool         // text is a list of turns
	images                    []eval.Image // that it shows
	facts
	at place
}

func (s *draft) newDocumentSet() documentSet {
	return documentSet{draft: s, ids: map[string]place{}, items: map[string]int{}, asked: map[[2]string]place{},
		answers: map[[2]string][]int{}, byItem: map[string][]string{}}
}

// documents reads the three forms of the documents key.
func (s *draft) documents(y *yamlFile, v value) documentSet {
	set := s.newDocumentSet()
	set.file = true
	before := len(s.problems)
	var described string
	if pattern, ok := scalar(v.node); ok {
		set.globs(y, []value{v})
		described = pattern
	} else if y.has(v, "jsonl") || y.has(v, "answers") {
		described = set.answerBlock(y, v)
	} else if y.has(v, "files") {
		described = set.files(y, v)
	} else {
		var patterns []value
		y.list(v, func(v value) { patterns = append(patterns, v) })
		described = strings.Join(set.globs(y, patterns), ", ")
	}

	if len(s.asked.Documents) == 0 && len(s.problems) == before {
		fix := documentsHint(described)
		if len(s.taken) > 0 { // files were found, and none of their rows is an answer
			fix = strings.Join(s.taken, "; ")
		}
		s.refuse(v.place, fix, "no documents found: %s", described)
	}
	if set.empty > 0 {
		s.warn(v.place, "", "documents without text: %d", set.empty)
	}
	return set
}

func (y *yamlFile) has(v value, key string) bool {
	if !isMapping(v.node) {
		return false
	}
	quiet := yamlFile{findings: &findings{}, name: y.name, anchors: y.anchors}
	found := false
	quiet.entries(v, func(k string, _ value) { found = found || k == key })
	return found
}

// maxID bounds the length of ids of documents and items, and of candidates.
const maxID = 512

// nameable reports whether a text can be a name or an id.
func nameable(text string) bool { return len(text) <= maxID && harmless.IsName(text) }

// unnameable refuses a text that cannot be a name. not ends the message, for example "names no
// model".
func (f *findings) unnameable(at place, text, not string) {
	f.refuse(at, fmt.Sprintf("use at most %d printable characters", maxID), "%.60q %s", text, not)
}

// called reads a name and reports one that cannot be a name.
func (y *yamlFile) called(v value) string {
	text := y.text(v)
	if !nameable(text) {
		y.unnameable(v.place, text, "cannot be a name")
	}
	return text
}

// add adds a document. Its problems are reported at its own place.
func (set *documentSet) add(doc foundDocument) {
	s := set.draft
	for _, name := range []string{doc.id, doc.item, doc.candidate} {
		if !nameable(name) {
			s.unnameable(doc.at, name, "cannot be an id")
			return
		}
	}

	if doc.id == eval.Tie {
		s.refuse(doc.at, "rename the document", "a document cannot be named %s, because verdicts use it for ties", eval.Tie)
		return
	}
	if before, ok := set.ids[doc.id]; ok {
		set.duplicate(doc, before)
		return
	}
	set.ids[doc.id] = doc.at
	item := set.item(doc)
	hash := eval.TextHash(doc.text)
	s.texts[hash] = doc.text
	if strings.TrimSpace(doc.text) == "" {
		set.empty++
	}
	if doc.candidate == "" {
		doc.candidate = doc.id
	}
	key := [2]string{doc.item, doc.candidate}
	if len(set.answers[key]) == 0 {
		set.byItem[doc.item] = append(set.byItem[doc.item], doc.candidate)
	}
	set.answers[key] = append(set.answers[key], len(s.asked.Documents))
	s.asked.Documents = append(s.asked.Documents, eval.Document{
		ID: doc.id, Item: item, Candidate: doc.candidate, Hash: hash, Bytes: len(doc.text),
		Turns: doc.turns, Images: doc.images,
	})
}

// duplicate reports a second document with an id. It shows the fix only once.
func (set *documentSet) duplicate(doc foundDocument, before place) {
	fix := ""
	if doc.at.line == 0 {
		fix = "if files in different folders have the same name, use documents: {files: \"…/<item>/<candidate>.md\"}"
	}
	if set.sameNames {
		fix = ""
	}
	set.sameNames = true
	set.draft.refuse(doc.at, fix, "a second document with the id %q, the first is %s", doc.id, before)
}

// item returns the position of a document's item. It adds a new item, and reports facts that differ
// from those of the item's other documents.
func (set *documentSet) item(doc foundDocument) int {
	s := set.draft
	i, ok := set.items[doc.item]
	if !ok {
		i = len(s.asked.Items)
		set.items[doc.item] = i
		s.asked.Items = append(s.asked.Items, eval.Item{ID: doc.item})
	}
	set.merge(&s.asked.Items[i], doc.facts, doc.at)
	return i
}

// comparable reports whether any item has at least two documents that may be compared.
func (set *documentSet) comparable() bool {
	if !set.draft.sameCandidate {
		return slices.ContainsFunc(slices.Collect(maps.Values(set.byItem)), func(candidates []string) bool { return len(candidates) > 1 })
	}
	count := make([]int, len(set.draft.asked.Items))
	for _, doc := range set.draft.asked.Documents {
		if count[doc.Item]++; count[doc.Item] == 2 {
			return true
		}
	}
	return false
}

// samples counts documents beyond the first of a candidate in an item.
func (set *documentSet) samples() int {
	n := 0
	for _, documents := range set.answers {
		n += len(documents) - 1
	}
	return n
}

// keepApart keeps documents of one candidate from being compared with each other, unless the file asks for that.
func (s *draft) keepApart(pairwise *eval.Pairwise, set documentSet, at place) {
	samples := set.samples()
	if samples == 0 || s.sameCandidate || pairwise.Pairs.Mode == eval.PairsListed { // a list has no such pairs
		return
	}
	if pairwise.Pairs.Mode == eval.PairsSwiss {
		s.refuse(at, "use pairs: sample:0.4, or set same_candidate: true",
			"swiss would compare answers of one candidate with each other, and some have several to an item: %d more than one", samples)
	}
	pairwise.Apart = true
	s.taken = append(s.taken, wording.Either(samples, "document is a further answer", "documents are further answers")+
		" of a candidate to an item; a candidate's answers are not compared with each other")
}

// candidates returns the set of the candidates of all documents.
func (s *draft) candidates() map[string]bool {
	all := map[string]bool{}
	for _, document := range s.asked.Documents {
		all[document.Candidate] = true
	}
	return all
}

// printable returns s shortened to fit a message.
func printable(s string) string { return wording.Clip(s, 40) }
