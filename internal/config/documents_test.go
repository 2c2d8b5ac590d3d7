package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
)

// documentsOf is one line for each document: id, item, candidate, text.
func documentsOf(s *Submission) []string {
	var all []string
	for _, d := range s.Evaluation.Documents {
		all = append(all, fmt.Sprintf("%s|%s|%s|%s", d.ID, s.Evaluation.Items[d.Item].ID, d.Candidate, s.Texts[d.Hash]))
	}
	slices.Sort(all)
	return all
}

const judged = "judges: [simulator:careful]\nsingle: {criteria: [style]}\n"

func TestDocuments(t *testing.T) {
	t.Parallel()
	tree := map[string]string{
		"docs/a.md": "Alpha.", "docs/b.txt": "Beta.", "docs/.hidden.md": "no", "docs/deep/er/c.md": "Gamma.",
		"essays/q1/gpt-4.md": "one", "essays/q1/llama.md": "two", "essays/q2/gpt-4.md": "three", "essays/notes.md": "no",
		"flat/q1-gpt-4.md": "one", "flat/q1-llama.md": "two",
		"odd [x]/a.md": "Odd.",
		"answers.jsonl": "\ufeff" + `{"item": "q1", "candidate": "m1", "text": "one", "question": "Why?"}` + "\n\n" +
			`{"item": "q1", "candidate": "m2", "text": "two", "extra": [1]}` + "\r\n" +
			`{"id": 17, "text": ""}`,
		"other.jsonl": `{"key": "x", "q": 3, "generator": "m", "output": "text", "instruction": "Why?"}`,
		"bom.md":      "\ufeffMarked.",
	}
	for _, c := range []struct {
		name, documents string
		want            []string
	}{
		{"globs", `[docs/*.md, docs/b.txt]`, []string{"a.md||a.md|Alpha.", "b.txt||b.txt|Beta."}},
		{"one glob as a word", `docs/*.md`, []string{"a.md||a.md|Alpha."}},
		{"any depth", `["docs/**/*.md"]`, []string{"a.md||a.md|Alpha.", "c.md||c.md|Gamma."}},
		{"hidden file by name", `[docs/.hidden.md]`, []string{".hidden.md||.hidden.md|no"}},
		{"the same file twice", `["docs/*.md", "./docs/a.md", "docs/../docs/a.md"]`, []string{"a.md||a.md|Alpha."}},
		{"alternatives", `["docs/{a,b}.*"]`, []string{"a.md||a.md|Alpha.", "b.txt||b.txt|Beta."}},
		{"escaped brackets", `['odd \[x\]/*.md']`, []string{"a.md||a.md|Odd."}},
		{"byte order mark", `[bom.md]`, []string{"bom.md||bom.md|Marked."}},
		{"files", `{files: "essays/<item>/<candidate>.md"}`, []string{
			"q1/gpt-4|q1|gpt-4|one", "q1/llama|q1|llama|two", "q2/gpt-4|q2|gpt-4|three"}},
		{"files in this folder", `{files: "./essays/<item>/<candidate>.md"}`, []string{
			"q1/gpt-4|q1|gpt-4|one", "q1/llama|q1|llama|two", "q2/gpt-4|q2|gpt-4|three"}},
		{"files with both in one name", `{files: "flat/<item>-<candidate>.md"}`, []string{"q1/gpt-4|q1|gpt-4|one", "q1/llama|q1|llama|two"}},
		{"files without item", `{files: "docs/<candidate>.md"}`, []string{"a||a|Alpha."}},
		{"files with brackets", `{files: "odd [x]/<candidate>.md"}`, []string{"a||a|Odd."}},
		{"jsonl", `{jsonl: answers.jsonl}`, []string{"17||17|", "q1/m1|q1|m1|one", "q1/m2|q1|m2|two"}},
		{"jsonl with names", `{jsonl: other.jsonl, id: key, item: q, candidate: generator, text: output, question: instruction}`,
			[]string{"x|3|m|text"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := load(t, with(tree, "eval.yaml", judged+"documents: "+c.documents+"\n"), Options{})
			if diff := cmp.Diff(c.want, documentsOf(s)); diff != "" {
				t.Errorf("documents (-want +got):\n%s", diff)
			}
		})
	}
	s := load(t, with(tree, "eval.yaml", judged+"documents: {jsonl: answers.jsonl}\n"), Options{})
	if want := []eval.Item{{}, {ID: "q1", Question: "Why?"}}; !cmp.Equal(want, s.Evaluation.Items) {
		t.Errorf("items: got %+v, want %+v", s.Evaluation.Items, want)
	}
	if got := Problems(s.Warnings).Error(); !strings.HasSuffix(got, "eval.yaml:3:12: documents: documents without text: 1") {
		t.Errorf("warnings: got %q, want the document without text", got)
	}
}

// Patterns reach outside the evaluation file's folder, whatever it is called.
func TestDocumentsAboveTheFile(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"data/q/m.md": "text",
		"eval [1]/eval.yaml":  judged + "documents: [../data/q/*.md]\n",
		"eval [1]/files.yaml": judged + "documents: {files: \"../data/<item>/<candidate>.md\"}\n"})
	for name, want := range map[string]string{"eval.yaml": "m.md||m.md|text", "files.yaml": "q/m|q|m|text"} {
		s, err := loadEvaluation(filepath.Join(dir, "eval [1]", name), Options{AllowOutside: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := documentsOf(s); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// One file under two names is two documents; one file reached by two ways is one.
func TestDocumentsThroughLinks(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"docs/a.md": "Alpha.", "eval.yaml": judged + "documents: [docs/*.md, way/*.md, \"docs/**\"]\n"})
	for link, target := range map[string]string{"way": "docs", "docs/b.md": "a.md", "docs/loop": "."} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Skip("no symbolic links:", err)
		}
	}
	s, err := loadEvaluation(filepath.Join(dir, "eval.yaml"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a.md||a.md|Alpha.", "b.md||b.md|Alpha."}
	if diff := cmp.Diff(want, documentsOf(s)); diff != "" {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
}

func TestDocumentProblems(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, documents string
		files           map[string]string
		want            []string
	}{
		{"nothing matches", "[x/*.md, y/*.md]", nil,
			[]string{"eval.yaml:3:12: documents: no documents found: x/*.md, y/*.md; paths are relative to the evaluation file's folder"}},
		{"empty list", "[]", nil, []string{"eval.yaml:3:12: documents: no documents found: "}},
		{"a folder", "[docs]", two, []string{"eval.yaml:3:13: documents[0]: docs is a folder; list its files: docs/*"}},
		{"bad pattern", `["docs/[a"]`, two, []string{"eval.yaml:3:13: documents[0]: docs/[a: "}},
		{"two files of one name", "['d*/a.md']", map[string]string{"d1/a.md": "1", "d2/a.md": "2"},
			[]string{`d2/a.md: a second document with the id "a.md", the first is d1/a.md; if files in different folders have the same name, ` +
				`use documents: {files: "…/<item>/<candidate>.md"}`}},
		{"a PDF", "[a.md]", map[string]string{"a.md": "%PDF-1.4\n"}, []string{"a.md: not a text: a PDF; convert it, for example with pdftotext"}},
		{"Word", "[a.md]", map[string]string{"a.md": "PK\x03\x04\xff"}, []string{"a.md: not a text: a zip archive, as documents of Word are; save it as text or Markdown"}},
		{"UTF-16", "[a.md]", map[string]string{"a.md": "\xff\xfea\x00"}, []string{"a.md: not a text: UTF-16; save it as UTF-8"}},
		{"a picture", "[a.md]", map[string]string{"a.md": "\x89PNG\r\n\x1a\n"}, []string{"a.md: the image is damaged: its size cannot be read"}},
		{"no UTF-8", "[a.md]", map[string]string{"a.md": "caf\xe9!"}, []string{"a.md: not UTF-8: byte 3 is not part of a character"}},
		{"too large", "[a.md]", map[string]string{"a.md": strings.Repeat("x", maxText+1)},
			[]string{"a.md: 8388609 bytes is too large: at most 8388608 bytes are read"}},
		{"called tie", `{files: "<candidate>.md"}`, map[string]string{"tie.md": "x"},
			[]string{"tie.md: a document cannot be named tie, because verdicts use it for ties; rename the document"}},
		{"no candidate", `{files: "<item>.md"}`, nil, []string{"eval.yaml:3:20: documents.files: the pattern has no <candidate>"}},
		{"unknown placeholder", `{files: "<model>/<candidate>.md"}`, nil, []string{"eval.yaml:3:20: documents.files: <model> is not allowed here; use <item> and <candidate>, each once"}},
		{"missing jsonl", "{jsonl: no.jsonl}", nil, []string{"eval.yaml:3:20: documents.jsonl: no.jsonl: no such file"}},
		{"malformed lines", "{jsonl: a.jsonl}", map[string]string{"a.jsonl": "{\"id\": \"a\", \"text\": \"x\"}\n{\"id\": }\n[1]\nnull\n{\"id\": \"b\", \"text\": 3}\n{\"id\": \"c\"\n{} {}\n"},
			[]string{"a.jsonl:2:8: not a JSON object: invalid character '}'", "a.jsonl:3: not a JSON object: got array",
				"a.jsonl:4: not a JSON object: got null", "a.jsonl:5: text: the value is not text; want text",
				"a.jsonl:6: not a JSON object: the line ends within it; write one JSON object per line", "a.jsonl:7: not a JSON object: there is text after the object"}},
		{"missing text", "{jsonl: a.jsonl}", map[string]string{"a.jsonl": `{"id": "a", "txt": "x"}`},
			[]string{"a.jsonl:1: text: the field is missing; did you mean txt? (choose with documents: {text: …})"}},
		{"missing id", "{jsonl: a.jsonl}", map[string]string{"a.jsonl": `{"item": "a", "text": "x"}`},
			[]string{"a.jsonl:1: the document has no id; give each line an id, or an item and a candidate"}},
		{"id twice", "{jsonl: a.jsonl}", map[string]string{"a.jsonl": "{\"id\":\"a\",\"text\":\"x\"}\n{\"id\":\"a\",\"text\":\"y\"}\n"},
			[]string{`a.jsonl:2: a second document with the id "a", the first is a.jsonl:1`}},
		{"field that no line has", "{jsonl: a.jsonl, candidate: generatr}", map[string]string{"a.jsonl": `{"id":"a","text":"x","generator":"m"}`},
			[]string{"eval.yaml:3:40: documents.candidate: no line of a.jsonl has a field generatr; did you mean generator?"}},
		{"two questions", "{jsonl: a.jsonl}", map[string]string{"a.jsonl": "{\"id\":\"a\",\"text\":\"x\",\"question\":\"1\"}\n{\"id\":\"b\",\"text\":\"y\",\"question\":\"2\"}\n"},
			[]string{`a.jsonl:2: item "" has another question here than in a.jsonl:1`}},
		{"half a character", "{jsonl: a.jsonl}", map[string]string{"a.jsonl": `{"id":"a","text":"\\ud83d\ude42"}` + "\n" + `{"id":"b","text":"x\\\ud83d\\ude42"}` + "\n"},
			[]string{`a.jsonl:1:26: \ude42 is half of a surrogate pair, which is not text; write the character itself, or both surrogates`, `a.jsonl:2:22: \ud83d is half of a surrogate pair`}},
		{"line without UTF-8", "{jsonl: a.jsonl}", map[string]string{"a.jsonl": "{\"id\":\"\xff\"}\n"}, []string{"a.jsonl:1:8: not UTF-8"}},
		{"id with a line break", "{jsonl: a.jsonl}", map[string]string{"a.jsonl": `{"id":"a\nb","text":""}`}, []string{`a.jsonl:1: "a\nb" cannot be an id`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			files := with(c.files, "eval.yaml", judged+"documents: "+c.documents+"\n")
			problems, got := problemsOf(t, files, Options{})
			if len(problems) != len(c.want) {
				t.Errorf("got %d problems, want %d:\n%s", len(problems), len(c.want), got)
			}
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("got\n%s\nwant among it\n%s", got, want)
				}
			}
		})
	}
}

// A file in another format does not report each of its lines.
func TestProblemsOfOneFileAreBounded(t *testing.T) {
	t.Parallel()
	problems, got := problemsOf(t, map[string]string{
		"eval.yaml": judged + "documents: {jsonl: a.jsonl}\n", "a.jsonl": strings.Repeat("x\n", 1000)}, Options{})
	if len(problems) != maxListed+1 || strings.Count(got, "\n") != maxListed || !strings.Contains(got, "a.jsonl: and 980 more problems") {
		t.Errorf("got %d problems, want %d and a line that counts the others:\n%s", len(problems), maxListed, got)
	}
}

func TestListedPairs(t *testing.T) {
	t.Parallel()
	answers := map[string]string{"a.jsonl": `{"item":"q2","candidate":"b","text":"1"}
{"item":"q2","candidate":"a","text":"2"}
{"item":"q1","candidate":"a","text":"3"}
{"item":"q1","candidate":"b","text":"4"}
{"item":"q1","candidate":"b","id":"second","text":"5"}
`}
	head := "judges: [simulator:careful]\ndocuments: {jsonl: a.jsonl}\n"
	s := load(t, with(answers, "eval.yaml", head+"pairwise: {pairs: {file: pairs.csv}, order: as_listed}\n",
		"pairs.csv", "\ufeffvotes,item,candidate_b,candidate_a\n7,q2,a,b\n7,q2,b,a\n"), Options{})
	var got []string
	for _, pair := range s.Evaluation.Pairwise.Pairs.Listed {
		got = append(got, s.Evaluation.Documents[pair[0]].ID+" "+s.Evaluation.Documents[pair[1]].ID)
	}
	if want := []string{"q2/b q2/a", "q2/a q2/b"}; !slices.Equal(got, want) {
		t.Errorf("pairs: got %q, want %q", got, want)
	}
	_, text := problemsOf(t, with(answers, "eval.yaml", head+"pairwise: {pairs: {file: pairs.csv}}\n",
		"pairs.csv", "item,candidate_a,candidate_b\nq2,a,b\nq2,b,a\nq3,a,b\nq2,a,c\nq2,a,a\nq1,a,b\nq2,a\nq2,a,\"b\"x\n"), Options{})
	want := strings.Join([]string{
		`pairs.csv:3:1: item: the pair is already in line 2; list each pair once; to ask again, use trials`,
		`pairs.csv:4:1: item: no document belongs to item "q3"`,
		`pairs.csv:5:6: candidate_b: item "q2" has no candidate "c"; known: a, b`,
		`pairs.csv:6:1: item: a document is compared with itself`,
		`pairs.csv:7:6: candidate_b: candidate "b" has 2 documents in item "q1"; give its documents different candidates`,
		`pairs.csv:8:1: not a row of CSV: wrong number of fields`,
		`pairs.csv:9:8: not a row of CSV: extraneous or missing " in quoted-field`,
	}, "\n")
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	for csv, want := range map[string]string{
		"item,a,b\n":                     "pairs.csv:1: the column candidate_a is missing; want the columns item,candidate_a,candidate_b",
		"":                               "pairs.csv: the file has no header; write the names of the columns into the first line: item,candidate_a,candidate_b",
		"item,candidate_a,candidate_b\n": "pairs.csv:1: there are no rows below the header",
	} {
		_, got := problemsOf(t, with(answers, "eval.yaml", head+"pairwise: {pairs: {file: pairs.csv}}\n", "pairs.csv", csv), Options{})
		if got != want {
			t.Errorf("pairs %q: got %q, want %q", csv, got, want)
		}
	}
}
