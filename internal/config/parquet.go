package config

import (
	"errors"
	"os"

	"github.com/evalfleet/evalfleet/eval/foreign/answers"
	"github.com/evalfleet/evalfleet/eval/foreign/parquet"
)

// parquetLines passes each row of a Parquet file to take, as textLines does with lines. The line of its place is the
// number of the row.
func (s *draft) parquetLines(path string, file *os.File, nan string, take func(at place, line []byte)) {
	many, at := s.many(), place{file: path}
	err := parquetRows(file, nan, func(row int, line []byte) bool {
		at.line = row
		take(at, line)
		many.bound()
		return true
	})
	many.say(at)
	if err != nil && !s.refuseParquet(path, err) {
		s.refuse(place{file: path}, "", "%v", cause(err))
	}
}

// refuseParquet reports a problem of a Parquet file, if err is one.
func (s *draft) refuseParquet(path string, err error) bool {
	var wrong *parquet.Error
	if !errors.As(err, &wrong) {
		return false
	}
	s.refuse(place{file: path, line: wrong.Row, path: wrong.Column}, wrong.Fix, "%s", wrong.Message)
	return true
}

// isParquet reports whether a file begins like a Parquet file.
func isParquet(file *os.File) bool {
	var head [4]byte
	n, _ := file.ReadAt(head[:], 0)
	return parquet.Is(head[:n])
}

func parquetRows(file *os.File, nan string, take func(row int, line []byte) bool) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	table, err := parquet.Open(file, info.Size())
	if err != nil {
		return err
	}
	return table.Rows(nan, take)
}

// firstOfParquet returns the first row of a Parquet file; nil if it has none.
func firstOfParquet(path string) (first map[string]any, err error) {
	file, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	err = parquetRows(file, neverText, func(_ int, line []byte) bool {
		first = answers.First(line)
		return false
	})
	return first, err
}
