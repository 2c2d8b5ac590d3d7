package table

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
)

// Rows are written in groups, because a group is in memory until it is complete, and in batches.
const (
	groupRows = 20_000
	batchRows = 100
)

// parquet writes the rows as an Apache Parquet file, compressed with zstd. Columns have their order; a missing value is
// null. Text is unchanged but for bytes that are not UTF-8, which readers refuse.
func (s Sheet) parquet(w io.Writer) error {
	out := parquet.NewGenericWriter[any](w, s.schema(), parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(groupRows))
	batch := make([]parquet.Row, 0, batchRows)
	send := func() error {
		_, err := out.WriteRows(batch)
		batch = batch[:0]
		return err
	}

	for values, err := range s.rows {
		if err != nil {
			return err
		}
		row := make(parquet.Row, len(values))
		for i, value := range values {
			row[i] = s.Heads[i].value(value, i)
		}
		if batch = append(batch, row); len(batch) == batchRows {
			if err := send(); err != nil {
				return err
			}
		}
	}

	if err := send(); err != nil {
		return err
	}
	return out.Close()
}

// schema returns the columns as parquet knows them. It is made from a struct, because the fields of one have an order.
func (s Sheet) schema() *parquet.Schema {
	types := map[Type]reflect.Type{
		IsText: reflect.TypeFor[string](), IsInteger: reflect.TypeFor[int64](), IsNumber: reflect.TypeFor[float64](),
		IsBoolean: reflect.TypeFor[bool](), IsTime: reflect.TypeFor[int64](),
	}
	fields := make([]reflect.StructField, len(s.Heads))
	for i, head := range s.Heads {
		tag := head.Name
		if head.optional() {
			tag += ",optional"
		}
		if head.Type == IsTime {
			tag += ",timestamp(millisecond)"
		}
		fields[i] = reflect.StructField{
			Name: fmt.Sprintf("Column%d", i), Type: types[head.Type], Tag: reflect.StructTag(`parquet:"` + tag + `"`),
		}
	}
	return parquet.NewSchema(s.Name, parquet.SchemaOf(reflect.New(reflect.StructOf(fields)).Interface()))
}

// optional reports whether values of the column can be missing.
func (h Head) optional() bool { return h.Type != IsText && h.Type != IsBoolean }

// value returns a value as parquet stores it in the column at position i.
func (h Head) value(value any, i int) parquet.Value {
	var stored parquet.Value
	switch value := value.(type) {
	case nil:
		return parquet.NullValue().Level(0, 0, i)
	case string:
		stored = parquet.ByteArrayValue([]byte(strings.ToValidUTF8(value, "�")))
	case int:
		stored = parquet.Int64Value(int64(value))
	case float64:
		stored = parquet.DoubleValue(value)
	case bool:
		stored = parquet.BooleanValue(value)
	case time.Time:
		stored = parquet.Int64Value(value.UnixMilli())
	default:
		panic(fmt.Sprintf("table: a parquet value of type %T", value)) // cannot happen: Column lists the types
	}
	if h.optional() {
		return stored.Level(0, 1, i)
	}
	return stored.Level(0, 0, i)
}
