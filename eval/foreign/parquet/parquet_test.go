package parquet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
)

type turn struct {
	Role    string  `parquet:"role,dict"`
	Content *string `parquet:"content,optional"`
}

type record struct {
	Item    string   `parquet:"item,dict"`
	Text    string   `parquet:"text,delta"`
	Prefix  string   `parquet:"prefix,delta"`
	Length  []byte   `parquet:"length,delta"`
	Turns   []turn   `parquet:"turns,list"`
	Plain   []string `parquet:"plain"`
	Numbers []int64  `parquet:"numbers,list"`
	Extra   *struct {
		Note  string   `parquet:"note"`
		Marks []string `parquet:"marks,list"`
	} `parquet:"extra,optional"`
	Map   map[string]int64 `parquet:"map"`
	Yes   bool             `parquet:"yes"`
	Small int32            `parquet:"small,delta"`
	Big   uint64           `parquet:"big"`
	Real  float64          `parquet:"real,split"`
	Short float32          `parquet:"short"`
	Day   int32            `parquet:"day,date"`
	At    time.Time        `parquet:"at,timestamp(microsecond)"`
	Money int64            `parquet:"money,decimal(2:18)"`
	ID    [16]byte         `parquet:"id,uuid"`
	Maybe *int64           `parquet:"maybe,optional"`
}

// records returns rows in which lists, structures and values are present, empty and missing.
func records(n int) []record {
	all := make([]record, n)
	for i := range all {
		text := fmt.Sprintf("\"answer %d\": ä\n\t\\ %s", i, strings.Repeat("x", i%40))
		r := record{
			Item: fmt.Sprintf("q%d", i%7), Text: text, Prefix: strings.ToValidUTF8(text[:len(text)/3], ""), Length: []byte(text), Yes: i%3 == 0,
			Small: int32(i*i) - 1000, Big: math.MaxUint64 - uint64(i), Real: float64(i) / 3, Short: float32(i) / 8, Day: int32(i) - 3,
			At: time.UnixMicro(int64(i) * 1_000_003).UTC(), Money: int64(i)*7 - 50, ID: [16]byte{1, byte(i)},
			Map: map[string]int64{"key": int64(i)},
		}
		for k := range i % 4 {
			one := turn{Role: []string{"user", "assistant"}[k%2]}
			if k != 1 {
				one.Content = &r.Prefix
			}
			r.Turns = append(r.Turns, one)
			r.Plain = append(r.Plain, strings.Repeat("p", k))
			r.Numbers = append(r.Numbers, int64(k)<<(i%60))
		}
		if i%5 != 0 {
			r.Extra = &struct {
				Note  string   `parquet:"note"`
				Marks []string `parquet:"marks,list"`
			}{Note: fmt.Sprint(i)}
			if i%2 == 0 {
				r.Extra.Marks = []string{"a", text}
			}
			maybe := int64(i)
			r.Maybe = &maybe
		}
		all[i] = r
	}
	return all
}

// want returns a record as JSON should say it.
func (r record) want() map[string]any {
	turns, plain, numbers := []any{}, []any{}, []any{}
	for _, one := range r.Turns {
		var content any
		if one.Content != nil {
			content = *one.Content
		}
		turns = append(turns, map[string]any{"role": one.Role, "content": content})
	}
	for _, text := range r.Plain {
		plain = append(plain, text)
	}
	for _, n := range r.Numbers {
		numbers = append(numbers, json.Number(fmt.Sprint(n)))
	}
	var extra, maybe any
	if r.Extra != nil {
		marks := []any{}
		for _, mark := range r.Extra.Marks {
			marks = append(marks, mark)
		}
		extra = map[string]any{"note": r.Extra.Note, "marks": marks}
	}
	if r.Maybe != nil {
		maybe = json.Number(fmt.Sprint(*r.Maybe))
	}
	number := func(x any) json.Number { raw, _ := json.Marshal(x); return json.Number(raw) }
	money := fmt.Sprintf("%.2f", float64(r.Money)/100)
	return map[string]any{
		"item": r.Item, "text": r.Text, "prefix": r.Prefix, "length": string(r.Length), "turns": turns, "plain": plain, "numbers": numbers,
		"extra": extra, "map": map[string]any{"key": number(r.Map["key"])}, "yes": r.Yes, "small": number(r.Small), "big": number(r.Big),
		"real": number(r.Real), "short": number(r.Short), "day": time.Unix(int64(r.Day)*86400, 0).UTC().Format(time.DateOnly),
		"at": r.At.Format("2006-01-02T15:04:05.999999999Z"), "money": json.Number(money),
		"id": fmt.Sprintf("01%02x0000-0000-0000-0000-000000000000", r.ID[1]), "maybe": maybe,
	}
}

func written(t testing.TB, rows []record, options ...parquet.WriterOption) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := parquet.Write(&out, rows, options...); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// read returns the rows of a file.
func read(file []byte) (rows []map[string]any, err error) {
	f, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, err
	}
	var wrong error
	err = f.Rows("null", func(_ int, object []byte) bool {
		decoder := json.NewDecoder(bytes.NewReader(object))
		decoder.UseNumber()
		var row map[string]any
		if wrong = decoder.Decode(&row); wrong != nil {
			wrong = fmt.Errorf("%w in %s", wrong, object)
		}
		rows = append(rows, row)
		return wrong == nil
	})
	return rows, errors.Join(err, wrong)
}

func TestRowsAreReadAsJSON(t *testing.T) {
	all := records(300)
	codecs := map[string]compress.Codec{
		"uncompressed": &parquet.Uncompressed, "snappy": &parquet.Snappy, "gzip": &parquet.Gzip, "zstd": &parquet.Zstd,
		"brotli": &parquet.Brotli, "lz4": &parquet.Lz4Raw,
	}
	for name, codec := range codecs {
		for version := 1; version <= 2; version++ {
			t.Run(fmt.Sprintf("%s v%d", name, version), func(t *testing.T) {
				t.Parallel()
				file := written(t, all, parquet.Compression(codec), parquet.DataPageVersion(version), parquet.PageBufferSize(500),
					parquet.MaxRowsPerRowGroup(130))
				rows, err := read(file)
				if err != nil {
					t.Fatal(err)
				}
				if len(rows) != len(all) {
					t.Fatalf("read %d rows, want %d", len(rows), len(all))
				}
				for i, row := range rows {
					if diff := cmp.Diff(all[i].want(), row); diff != "" {
						t.Fatalf("row %d (-want +got):\n%s", i+1, diff)
					}
				}
			})
		}
	}
}

// TestOtherEncodings reads encodings that tags of the writer's structs cannot name, and lists of lists.
func TestOtherEncodings(t *testing.T) {
	node := parquet.Group{
		"text": parquet.Encoded(parquet.String(), &parquet.DeltaByteArray),
		"deep": parquet.List(parquet.Optional(parquet.List(parquet.Leaf(parquet.Int32Type)))),
		"half": parquet.Optional(parquet.Encoded(parquet.Leaf(parquet.FloatType), &parquet.ByteStreamSplit)),
	}
	var out bytes.Buffer
	to := parquet.NewGenericWriter[map[string]any](&out, parquet.NewSchema("rows", node))
	var want []map[string]any
	for i := range 200 {
		text := strings.Repeat("ab", i%30) + fmt.Sprint(i)
		row := map[string]any{"text": text, "deep": []any{[]any{int32(i)}, []any{}, []any{int32(1), int32(2)}}, "half": float32(i+1) / 2}
		if _, err := to.Write([]map[string]any{row}); err != nil {
			t.Fatal(err)
		}
		want = append(want, map[string]any{
			"text": text, "deep": []any{[]any{json.Number(fmt.Sprint(i))}, []any{}, []any{json.Number("1"), json.Number("2")}},
			"half": json.Number(fmt.Sprint(float32(i+1) / 2)),
		})
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := read(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

// TestDamagedFilesGiveErrors cuts a file at many lengths and changes many of its bytes. No reading may panic, and none
// may return rows that were not in the file without an error of type *Error or JSON that is invalid.
func TestDamagedFilesGiveErrors(t *testing.T) {
	file := written(t, records(9), parquet.Compression(&parquet.Snappy), parquet.PageBufferSize(200))
	step := 5
	if testing.Short() {
		step = 17
	}
	for end := 0; end < len(file); end += step {
		if _, err := read(file[:end]); err == nil {
			t.Fatalf("the first %d bytes of %d are read without an error", end, len(file))
		} else if wrong := (*Error)(nil); !errors.As(err, &wrong) {
			t.Fatalf("the first %d bytes: %v", end, err)
		}
	}
	for i := 0; i < len(file); i += step {
		for _, b := range []byte{0, 0x7f, 0xff} {
			damaged := bytes.Clone(file)
			damaged[i] = b
			_, err := read(damaged)
			if wrong := (*Error)(nil); err != nil && !errors.As(err, &wrong) {
				t.Fatalf("byte %d as %#x: %v", i, b, err)
			}
		}
	}
}

// TestRunsEndWithTheirBytes reads runs of numbers whose bytes are cut off.
func TestRunsEndWithTheirBytes(t *testing.T) {
	for name, data := range map[string][]byte{
		"no head":                     {},
		"half a head":                 {0x80},
		"one value, without a byte":   {2 << 1},
		"one value, with a byte less": {2 << 1, 7},
		"packed, without a byte":      {1<<1 | 1},
	} {
		if runs := newHybrid(data, 9); runs.run() {
			t.Errorf("%s: a run begins: %+v", name, runs)
		}
	}
	whole := newHybrid([]byte{2 << 1, 7, 1}, 9)
	for range 2 {
		if value, ok := whole.next(); !ok || value != 1<<8+7 {
			t.Errorf("got %d, %t; want 263", value, ok)
		}
	}
	if value, ok := whole.next(); ok {
		t.Errorf("got %d after the end", value)
	}
}

// TestRowsAreBounded reads a small file that says the same text again and again.
func TestRowsAreBounded(t *testing.T) {
	all := records(400)
	for i := range all {
		all[i] = all[0]
	}
	file := written(t, all, parquet.Compression(&parquet.Zstd))
	f, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	const most = 100_000
	f.most = most
	total := 0
	err = f.Rows("null", func(_ int, object []byte) bool { total += len(object); return true })
	if wrong := (*Error)(nil); !errors.As(err, &wrong) || !strings.Contains(wrong.Message,
		"unpacks to more than 100000 bytes") || total > most {
		t.Fatalf("got %d bytes, then %v", total, err)
	}
}

func FuzzRows(f *testing.F) {
	f.Add(written(f, records(3), parquet.Compression(&parquet.Zstd)))
	f.Add(written(f, records(40), parquet.Compression(&parquet.Snappy), parquet.PageBufferSize(300), parquet.DataPageVersion(1)))
	f.Add([]byte("PAR1\x15\x00\x00\x00PAR1"))
	f.Fuzz(func(t *testing.T, file []byte) {
		_, err := read(file)
		if wrong := (*Error)(nil); err != nil && !errors.As(err, &wrong) {
			t.Fatal(err)
		}
	})
}
