package results

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// Rest keeps results for which the results store has no room when their stream ends with the
// process. Its file is allocated in advance, so that a full disk has room for it. The next process
// that opens it moves the results into the results store. A Rest must not be used by several
// goroutines at once, nor its file by several processes.
type Rest struct {
	path string
	size int64
	kept int // entries in the file
}

// maxRestLine bounds in bytes the line that is read, and the lines that are stored at once. The
// file may come from another person.
const maxRestLine = 16 << 20

// restLine is one entry in the file; zero bytes follow the last.
type restLine struct {
	Evaluation eval.ID       `json:"evaluation"`
	Run        *record.Run   `json:"run,omitempty"`
	Calls      []record.Call `json:"calls,omitempty"`
}

// OpenRest moves what an earlier process has kept at path into the results store, and reserves room
// for size bytes. The error is ErrNoEvaluation if the results store does not know the kept
// evaluation; the file stays then. It is ErrFull if there is no room.
func OpenRest(ctx context.Context, path string, size int64, db Store) (*Rest, error) {
	r := &Rest{path: path, size: size}
	if err := r.storeAll(ctx, db); err != nil {
		return nil, err
	}
	if err := r.write(bytes.NewReader(make([]byte, size))); err != nil {
		_ = os.Remove(path) // it takes room and contains nothing
		return nil, fmt.Errorf("reserve disk space for results: %w: %w", ErrFull, err)
	}
	return r, nil
}

// storeAll moves the file's entries into the results store.
func (r *Rest) storeAll(ctx context.Context, db Store) error {
	file, err := os.Open(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read kept results: %w", err)
	}
	defer file.Close()
	of, size := map[eval.ID][]record.Entry{}, 0
	store := func() error {
		for id, entries := range of {
			if err := db.Append(ctx, id, entries); err != nil {
				return fmt.Errorf("store the results that %s keeps of %s: %w", r.path, id, err)
			}
		}
		clear(of)
		size = 0
		return nil
	}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxRestLine)
	lines.Split(keptLines)
	for lines.Scan() {
		var line restLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("read kept results %s: %w", r.path, err)
		}
		of[line.Evaluation] = append(of[line.Evaluation], record.Entry{Run: line.Run, Calls: line.Calls})
		if size += len(lines.Bytes()); size > maxRestLine {
			if err := store(); err != nil {
				return err
			}
		}
	}

	if err := lines.Err(); err != nil {
		return fmt.Errorf("read kept results %s: %w", r.path, err)
	}
	return store()
}

// keptLines splits a file into its lines; it is a bufio.SplitFunc. A line without an end was cut
// off, and zeros are unused room.
func keptLines(data []byte, _ bool) (advance int, line []byte, err error) {
	if len(data) > 0 && data[0] == 0 {
		return 0, nil, bufio.ErrFinalToken
	}
	if end := bytes.IndexByte(data, '\n'); end >= 0 {
		return end + 1, data[:end], nil
	}
	return 0, nil, nil
}

// Keep writes the rest of the evaluation's stream to the file. It returns how many entries it has
// kept, and how many did not fit.
func (r *Rest) Keep(ctx context.Context, client redis.Cmdable, keys record.Keys, id eval.ID) (kept, left int, err error) {
	messages, err := client.XRange(ctx, keys.Results(id), "-", "+").Result()
	if err != nil {
		return 0, 0, redisError{"read results of " + string(id), err}
	}
	var lines bytes.Buffer
	for _, message := range messages {
		entry, err := record.DecodeEntry(message.Values)
		if err != nil {
			return 0, len(messages), fmt.Errorf("entry %s of %s: %w", message.ID, id, err)
		}
		line, err := json.Marshal(restLine{Evaluation: id, Run: entry.Run, Calls: entry.Calls})
		if err != nil {
			return 0, len(messages), fmt.Errorf("encode entry %s of %s: %w", message.ID, id, err)
		}
		if int64(lines.Len()+len(line)+1) > r.size {
			left++
			continue
		}
		lines.Write(append(line, '\n'))
		kept++
	}

	if err := r.write(&lines); err != nil {
		return 0, len(messages), fmt.Errorf("keep results: %w", err)
	}
	r.kept = kept
	return kept, left, nil
}

// write overwrites the file from its start, and syncs it to disk.
func (r *Rest) write(content io.Reader) error {
	file, err := os.OpenFile(r.path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Sync(), file.Close())
}

// Close removes the file if it keeps nothing.
func (r *Rest) Close() error {
	if r.kept > 0 {
		return nil
	}
	return os.Remove(r.path)
}
