package parquet

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// The physical types of columns.
const (
	typeBoolean = iota
	typeInt32
	typeInt64
	typeInt96
	typeFloat
	typeDouble
	typeBytes
	typeFixed
)

// repetition says how often a value can occur.
const (
	required = iota
	optional
	repeated
)

// meaning is what the values of a column mean, beyond their physical type.
type meaning int

const (
	asIs meaning = iota
	asText
	asMap
	asList
	asDecimal
	asDate
	asMillis // of a day
	asMicros
	asNanos
	atMillis // since 1970
	atMicros
	atNanos
	asUnsigned
	asJSON
	asUUID
	asHalf // a number of 16 bits
	asOther
)

// converted lists the meanings by their number in older files.
var converted = map[int64]meaning{
	0: asText, 1: asMap, 2: asMap, 3: asList, 4: asText, 5: asDecimal, 6: asDate, 7: asMillis, 8: asMicros, 9: atMillis, 10: atMicros,
	11: asUnsigned, 12: asUnsigned, 13: asUnsigned, 14: asUnsigned, 15: asIs, 16: asIs, 17: asIs, 18: asIs,
	19: asJSON, 20: asOther, 21: asOther,
}

// logical lists the meanings by the number of their field in newer files. Times and integers have parameters.
var logical = map[int64]meaning{
	1: asText, 2: asMap, 3: asList, 4: asText, 5: asDecimal, 6: asDate, 11: asIs, 12: asJSON, 13: asOther, 14: asUUID, 15: asHalf,
}

// node is a column, or a structure of columns.
type node struct {
	name       string
	repetition int64
	meaning    meaning
	children   []*node
	leaf       *leaf // nil: a structure
	first      *leaf // the first leaf at or below the node
	def, rep   int   // levels at which the node is present, and at which it repeats
}

// leaf is a column with values.
type leaf struct {
	path     string
	position int
	kind     int64 // physical
	length   int64 // of a value of typeFixed
	scale    int64 // of decimals
	meaning  meaning
	def, rep int // the highest levels
}

// element is one entry of the schema, which lists a tree depth first.
type element struct {
	name                                               string
	kind, length, repetition, children, scale, convert int64
	logical                                            meaning
}

// schema reads the columns.
func (f *File) schema(t *thrift) error {
	n, kind := t.list()
	if kind != isStruct || n == 0 || f.root != nil {
		return errMetadata
	}
	if n > 4*maxColumns {
		return &Error{Message: fmt.Sprintf("the Parquet file has %d columns: at most %d are read", n, maxColumns)}
	}
	elements := make([]element, 0, n)
	for range n {
		elements = append(elements, readElement(t))
	}
	if t.err != nil {
		return t.err
	}

	rest := elements
	root, err := f.node(&rest, &node{}, nil)
	if err != nil {
		return err
	}
	if len(rest) > 0 || root.leaf != nil {
		return errMetadata
	}
	f.root = root
	return nil
}

func readElement(t *thrift) element {
	e := element{kind: -1, convert: -1, logical: asIs}
	t.structure(func(id int64, kind byte) bool {
		switch {
		case id == 4 && kind == isBinary:
			e.name = t.text()
			return true
		case id == 10 && kind == isStruct:
			t.structure(func(id int64, kind byte) bool { return e.means(t, id, kind) })
			return true
		}
		into := map[int64]*int64{1: &e.kind, 2: &e.length, 3: &e.repetition, 5: &e.children, 6: &e.convert, 7: &e.scale}[id]
		return into != nil && t.number(into, kind)
	})
	if known, has := converted[e.convert]; has && e.logical == asIs {
		e.logical = known
	}
	return e
}

// means reads a meaning of newer files.
func (e *element) means(t *thrift, id int64, kind byte) bool {
	e.logical = asOther
	if known, has := logical[id]; has {
		e.logical = known
	}
	if kind != isStruct || id != 7 && id != 8 && id != 10 {
		return false
	}

	t.structure(func(field int64, kind byte) bool {
		switch {
		case id == 10 && field == 2: // whether the integer has a sign
			e.logical = asIs
			if kind == isFalse {
				e.logical = asUnsigned
			}
		case id != 10 && field == 2 && kind == isStruct: // the unit
			t.structure(func(unit int64, _ byte) bool {
				if unit >= 1 && unit <= 3 {
					e.logical = asMillis + meaning(unit-1)
					if id == 8 {
						e.logical = atMillis + meaning(unit-1)
					}
				}
				return false
			})
			return true
		}
		return false
	})
	return true
}

// node takes the next node and those below it from a list of elements.
func (f *File) node(rest *[]element, above *node, path []string) (*node, error) {
	if len(*rest) == 0 || len(path) > maxNesting {
		return nil, errMetadata
	}
	e := (*rest)[0]
	if !utf8.ValidString(e.name) {
		return nil, errMetadata
	}
	*rest = (*rest)[1:]
	n := &node{name: e.name, repetition: e.repetition, meaning: e.logical, def: above.def, rep: above.rep}
	if path == nil {
		n.repetition, path = required, []string{}
	} else {
		path = append(path, e.name)
	}
	switch n.repetition {
	case required:
	case optional:
		n.def++
	case repeated:
		n.def, n.rep = n.def+1, n.rep+1
	default:
		return nil, errMetadata
	}

	if e.kind >= 0 && e.children == 0 {
		if e.kind > typeFixed || e.kind == typeFixed && (e.length < 0 || e.length > maxName) || e.scale < 0 || e.scale > maxNesting {
			return nil, errMetadata
		}
		if len(f.leaves) == maxColumns {
			return nil, &Error{Message: fmt.Sprintf("the Parquet file has more than %d columns", maxColumns),
				Fix: "write only those that are needed"}
		}
		n.leaf = &leaf{
			path: strings.Join(path, "."), position: len(f.leaves), kind: e.kind, length: e.length, scale: e.scale, meaning: n.meaning,
			def: n.def, rep: n.rep,
		}
		n.first = n.leaf
		f.leaves = append(f.leaves, n.leaf)
		return n, nil
	}
	for range e.children {
		child, err := f.node(rest, n, path)
		if err != nil {
			return nil, err
		}
		if same := func(other *node) bool { return other.name == child.name }; slices.ContainsFunc(n.children, same) {
			return nil, &Error{Column: child.name, Message: "a second column has this name", Fix: "give each column a unique name"}
		}
		n.children = append(n.children, child)
	}
	if len(n.children) == 0 {
		return nil, broken("the column %q has no values", n.name)
	}
	n.first = n.children[0].first
	return n, nil
}

// elements returns the node of the values of a list, which files nest in up to two further ones; nil: it is no list.
func (n *node) elements() *node {
	if n.meaning != asList || len(n.children) != 1 || n.children[0].repetition != repeated {
		return nil
	}
	inner := n.children[0]
	if inner.leaf != nil || len(inner.children) != 1 || inner.name == "array" || inner.name == n.name+"_tuple" {
		return inner
	}
	return inner.children[0]
}

// entries returns the node of the entries of a map with texts as keys; nil: it is none.
func (n *node) entries() *node {
	if n.meaning != asMap || len(n.children) != 1 {
		return nil
	}
	inner := n.children[0]
	if inner.repetition != repeated || len(inner.children) != 2 {
		return nil
	}
	key := inner.children[0]
	if key.leaf == nil || key.repetition != required || key.leaf.kind != typeBytes {
		return nil
	}
	return inner
}
