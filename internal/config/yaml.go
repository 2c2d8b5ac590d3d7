package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxNesting bounds how deep values are followed, so that an anchor that contains itself ends.
const maxNesting = 64

var errTooDeep = fmt.Errorf("nested more than %d deep", maxNesting)

// yamlFile is one YAML file being read. Its methods read values of one type and report errors. The
// zero value returned with an error is never used, because problems end the reading.
type yamlFile struct {
	*findings
	name    string // part of every place
	source  []byte // its text
	anchors map[string]ast.Node
	ofFleet bool // it is the fleet's file
	// ofAccounts holds the limits that accounts of providers have.
	ofAccounts concurrency
	misused    bool // an evaluation file instead of a fleet file, already reported
	tooDeep    bool // reported already: an alias of its own container recurs
}

// value is one value of a file.
type value struct {
	place          // of the value
	key   place    // of its key; the value's own place if it has no key
	node  ast.Node // never an alias, anchor or tag
	depth int
}

// parseYAML reads a file's text. If the text contains no value, ok is false and a problem has been
// reported.
func parseYAML(name string, text []byte, found *findings) (y *yamlFile, root value, ok bool) {
	y = &yamlFile{findings: found, name: name, source: text, anchors: map[string]ast.Node{}}
	top := place{file: name, line: 1, column: 1}
	var parsed *ast.File
	tokens, err := tokensOf(text)
	if err == nil {
		parsed, err = parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	}
	if err != nil {
		var syntax *yaml.SyntaxError
		if errors.As(err, &syntax) && syntax.Token != nil {
			top.line, top.column = syntax.Token.Position.Line, syntax.Token.Position.Column
			err = errors.New(syntax.Message)
		}
		y.refuse(top, syntaxHint(err.Error(), lineOf(text, top.line)), "not valid YAML: %v", err)
		return y, value{}, false
	}

	var bodies []ast.Node
	for _, doc := range parsed.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.CommentType {
			bodies = append(bodies, doc.Body)
		}
	}

	switch len(bodies) {
	case 0:
		y.refuse(top, "", "the file is empty")
		return y, value{}, false
	case 1:
	default:
		y.refuse(y.placeOf(bodies[1], ""), "put it into a separate file", "a second YAML document starts here")
		return y, value{}, false
	}

	ast.Walk(anchorCollector(y.anchors), bodies[0])
	root, ok = y.resolve(bodies[0], "", 0)
	return y, root, ok
}

// anchorCollector holds the value of every anchor by its name.
type anchorCollector map[string]ast.Node

// Visit implements ast.Visitor.
func (c anchorCollector) Visit(n ast.Node) ast.Visitor {
	if anchor, ok := n.(*ast.AnchorNode); ok {
		c[anchor.Name.GetToken().Value] = anchor.Value
	}
	return c
}

// resolve follows anchors, aliases and tags to the value itself. Its place is where the alias is
// written.
func (y *yamlFile) resolve(n ast.Node, path string, depth int) (value, bool) {
	at := y.placeOf(n, path)
	for range maxNesting {
		switch x := n.(type) {
		case *ast.AnchorNode:
			n = x.Value
		case *ast.TagNode:
			n = x.Value
		case *ast.AliasNode:
			name := x.Value.GetToken().Value
			target, ok := y.anchors[name]
			if !ok {
				y.refuse(at, `put a text that begins with "*" in quotes`, "alias *%s has no anchor &%s", name, name)
				return value{}, false
			}
			n = target
		case nil:
			y.refuse(at, "", "got nothing")
			return value{}, false
		default:
			if depth > maxNesting {
				if !y.tooDeep {
					y.refuse(at, "", "%v", errTooDeep)
				}
				y.tooDeep = true
				return value{}, false
			}
			return value{place: at, key: at, node: n, depth: depth}, true
		}
	}

	y.refuse(at, "", "the alias refers to itself")
	return value{}, false
}

// placeOf returns the place where a node begins.
func (y *yamlFile) placeOf(n ast.Node, path string) place {
	p := place{file: y.name, line: 1, column: 1, path: path}
	for n != nil {
		switch x := n.(type) {
		case *ast.MappingNode:
			if !x.IsFlowStyle && len(x.Values) > 0 {
				n = x.Values[0].Key
				continue
			}
		case *ast.MappingValueNode:
			n = x.Key
			continue
		}
		break
	}
	if n == nil || n.GetToken() == nil {
		return p
	}
	position := n.GetToken().Position
	p.line, p.column = max(position.Line, 1), max(position.Column, 1)
	return p
}

// keys says how each key of a mapping is read.
type keys map[string]func(value)

// mapping reads a mapping with known keys; others are reported. An empty value is an empty mapping.
func (y *yamlFile) mapping(v value, known keys) {
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	y.entries(v, func(key string, child value) {
		read, ok := known[key]
		if !ok {
			y.unknownKey(key, child, names)
			return
		}
		read(child)
	})
}

// entries reads a mapping with arbitrary keys, in the order written, each key once.
func (y *yamlFile) entries(v value, read func(key string, v value)) {
	first := map[string]place{}
	y.merged(v, func(key string, child value, merged bool) {
		if before, ok := first[key]; ok {
			if !merged {
				y.refuse(child.key, "", "duplicate key, first in line %d", before.line)
			}
			return
		}
		first[key] = child.key
		read(key, child)
	})
}

// merged visits a mapping's own entries, then those of the mapping that "<<" merges into it. Its
// own entries take precedence.
func (y *yamlFile) merged(v value, visit func(key string, v value, merged bool)) {
	var entries []*ast.MappingValueNode
	switch x := v.node.(type) {
	case *ast.NullNode:
		return
	case *ast.MappingNode:
		entries = x.Values
	case *ast.MappingValueNode:
		entries = []*ast.MappingValueNode{x}
	default:
		want := "keys with values"
		if example := mappingExamples[v.path]; example != "" {
			want += ", for example " + v.path + ": " + example
		}
		y.mismatch(v, want)
		return
	}

	var base *value
	for _, entry := range entries {
		key, at := entry.Key.GetToken().Value, y.placeOf(entry.Key, v.path)
		if entry.Key.IsMergeKey() {
			if base != nil { // aliases that refer to themselves would double at each level
				y.refuse(at, "", "a second <<")
				continue
			}
			if merge, ok := y.resolve(entry.Value, v.path, v.depth+1); ok {
				base = &merge
			}
			continue
		}
		if _, complex := entry.Key.(*ast.MappingKeyNode); complex {
			y.refuse(at, "", "the key is not a word")
			continue
		}
		at.path = join(v.path, key)
		if child, ok := y.resolve(entry.Value, at.path, v.depth+1); ok {
			child.key = at
			visit(key, child, false)
		}
	}

	if base != nil {
		y.merged(*base, func(key string, child value, _ bool) { visit(key, child, true) })
	}
}

func (y *yamlFile) list(v value, read func(value)) {
	sequence, ok := v.node.(*ast.SequenceNode)
	if !ok {
		want := "a list"
		word, ok := scalar(v.node)
		switch {
		case strings.Contains(word, "\u00a0"):
			want += "; indent with plain spaces: this text has no-break spaces"
		case ok && word != "" && !strings.ContainsAny(word, "\n[]{},"):
			want += fmt.Sprintf(", for example [%q]", printable(word))
		}
		y.mismatch(v, want)
		return
	}
	for i, n := range sequence.Values {
		if child, ok := y.resolve(n, v.path+"["+strconv.Itoa(i)+"]", v.depth+1); ok {
			read(child)
		}
	}
}

// lineOf returns the line of a text with a number, from 1; "" if the text is shorter.
func lineOf(text []byte, number int) string {
	for line := range strings.Lines(string(text)) {
		if number--; number == 0 {
			return line
		}
	}
	return ""
}

// mismatch reports a value of the wrong type.
func (y *yamlFile) mismatch(v value, want string) {
	y.refuse(v.place, "want "+want, "got %s", describe(v.node))
}

func describe(n ast.Node) string {
	switch n.(type) {
	case *ast.NullNode:
		return "nothing"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	}
	word, _ := scalar(n)
	return strconv.Quote(printable(word))
}

func isMapping(n ast.Node) bool {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

func isList(n ast.Node) bool {
	_, ok := n.(*ast.SequenceNode)
	return ok
}

func isEmptyList(n ast.Node) bool {
	list, ok := n.(*ast.SequenceNode)
	return ok && len(list.Values) == 0
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
