package table_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/evalfleet/evalfleet/internal/table"
)

// A Parquet file has the columns in their order, with their types, and the rows of the CSV.
func TestParquet(t *testing.T) {
	t.Parallel()
	many := append([]row{}, two...)
	for i := range 25_000 { // more than a group
		many = append(many, row{name: fmt.Sprintf("row %d\xff", i), tokens: i})
	}
	var file bytes.Buffer
	if err := table.Parquet.Write(table.Of("rows", rows, table.Rows(many)), &file); err != nil {
		t.Fatal(err)
	}

	opened, err := parquet.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"required binary name (STRING);", "optional int64 place (INT(64,true));", "optional double value;", "required boolean is;",
		"optional int64 at (TIMESTAMP(isAdjustedToUTC=true,unit=MILLIS));", "optional int64 tokens (INT(64,true));",
	}
	schema := opened.Schema().String()
	for _, line := range want {
		before, after, ok := strings.Cut(schema, line)
		if !ok || strings.Contains(before, "}") {
			t.Fatalf("no %q after the columns before it in\n%s", line, opened.Schema())
		}
		schema = after
	}
	if len(opened.RowGroups()) != 2 || opened.NumRows() != int64(len(many)) {
		t.Errorf("%d rows in %d groups, want %d in 2", opened.NumRows(), len(opened.RowGroups()), len(many))
	}

	read := make([]parquet.Row, 3)
	of := parquet.NewGenericReader[any](bytes.NewReader(file.Bytes()))
	defer of.Close()
	if n, err := of.ReadRows(read); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	at := time.Date(2026, 1, 2, 2, 4, 5, 6_000_000, time.UTC).UnixMilli()
	for k, want := range []string{
		fmt.Sprintf("[=a 1 0.25 true %d 0]", at), "[ <null> <null> false <null> <null>]", "[row 0� <null> 0 false <null> 0]",
	} {
		var got []string
		for _, value := range read[k] {
			got = append(got, value.String())
		}
		if text := "[" + strings.Join(got, " ") + "]"; text != want {
			t.Errorf("row %d is %s, want %s", k, text, want)
		}
	}
}
