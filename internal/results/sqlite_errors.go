package results

import (
	"errors"
	"fmt"
	"io/fs"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

func (lite) explain(operation, path string, err error) error {
	return explainSQLite(operation, path, err)
}

func explainSQLite(operation, path string, err error) error {
	where := fmt.Sprintf("%s results database %s", operation, path)
	code := codeOf(err)
	switch code {
	case codes.SQLITE_IOERR_WRITE, codes.SQLITE_IOERR_SHMSIZE: // quota, size limit; a full disk is SQLITE_FULL
		return fmt.Errorf("%s: %w: make room; nothing collected is lost: %w", where, ErrFull, err)
	}
	switch code & 0xff {
	case codes.SQLITE_FULL:
		return fmt.Errorf("%s: %w: make room; nothing collected is lost: %w", where, ErrFull, err)
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED:
		return fmt.Errorf("%s: %w: close the program that has it open for writing: %w", where, ErrBusy, err)
	case codes.SQLITE_NOTADB:
		return unfit{fmt.Errorf("%s: it is not a SQLite database: name another file: %w", where, err)}
	case codes.SQLITE_CORRUPT:
		return fmt.Errorf("%s: it is damaged: move it away, or rescue it with `sqlite3 FILE .recover`: %w", where, err)
	case codes.SQLITE_READONLY, codes.SQLITE_CANTOPEN, codes.SQLITE_PERM:
		return unfit{fmt.Errorf("%s: cannot be written: check that its folder exists and that you may write to both: %w", where, err)}
	case codes.SQLITE_PROTOCOL, codes.SQLITE_IOERR:
		return fmt.Errorf("%s: the disk or its file system refused (network drives may): put it on a local disk: %w", where, err)
	}
	return fmt.Errorf("%s: %w", where, err)
}

// unfit is an ErrUnfit with its own message.
type unfit struct{ error }

func (e unfit) Unwrap() error        { return e.error }
func (e unfit) Is(target error) bool { return target == ErrUnfit }

// missing is an ErrNoStore with its own message.
type missing struct{ unfit }

func (e missing) Is(target error) bool {
	return target == ErrNoStore || target == fs.ErrNotExist || e.unfit.Is(target)
}

// unwritable reports whether a file or folder that cannot be written caused err.
func unwritable(err error) bool {
	switch codeOf(err) & 0xff {
	case codes.SQLITE_READONLY, codes.SQLITE_CANTOPEN, codes.SQLITE_PERM:
		return true
	}
	return false
}

func codeOf(err error) int {
	var e *driver.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return codes.SQLITE_OK
}
