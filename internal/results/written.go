package results

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// writtenAnswers knows which files below a working folder are answers: their paths and the hashes
// of the written contents.
type writtenAnswers struct {
	folder string
	hashes map[string][]string // by slash-separated path below folder
}

// maxAnswersFile bounds the file in bytes, because it is kept in memory and a working folder may
// come from another person.
const maxAnswersFile = 256 << 20

// writtenAnswer is a line of AnswersFile.
type writtenAnswer struct {
	Path string `json:"path"`
	Hash string `json:"sha256"`
}

// readWrittenAnswers reads the record of a working folder. It ignores lines that cannot be read,
// such as one cut off by a crash.
func readWrittenAnswers(folder string) (*writtenAnswers, error) {
	w := &writtenAnswers{folder: folder, hashes: map[string][]string{}}
	root, err := os.OpenRoot(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return w, nil
	}
	if err != nil {
		return nil, fmt.Errorf("working folder: %w", err)
	}
	defer root.Close()
	file, err := root.Open(AnswersFile)
	if errors.Is(err, fs.ErrNotExist) {
		return w, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(folder, AnswersFile), err)
	}
	defer file.Close()

	switch info, err := file.Stat(); {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", filepath.Join(folder, AnswersFile), err)
	case !info.Mode().IsRegular() || info.Size() > maxAnswersFile:
		return nil, fmt.Errorf(
			"%s is not a regular file of at most %d MiB: move it away; existing answers are then not replaced",
			filepath.Join(folder, AnswersFile), maxAnswersFile>>20,
		)
	}

	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var line writtenAnswer
		if json.Unmarshal(lines.Bytes(), &line) == nil {
			w.hashes[line.Path] = append(w.hashes[line.Path], line.Hash)
		}
	}

	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(folder, AnswersFile), err)
	}
	return w, nil
}

// claim records that text is about to be written at name below root. It refuses names with a part
// that begins with a dot. It refuses files that contain neither text nor a recorded answer.
func (w *writtenAnswers) claim(root *os.Root, name, text string) error {
	path := filepath.ToSlash(filepath.Clean(name))
	for part := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(part, ".") && part != "." && part != ".." { // the root refuses these itself
			return fmt.Errorf("%s starts with a dot, which is not allowed for answers: choose another out", part)
		}
	}

	sum := sha256.Sum256([]byte(text))
	next := hex.EncodeToString(sum[:])
	if err := w.replaces(root, name, next); err != nil {
		return err
	}
	if slices.Contains(w.hashes[path], next) {
		return nil
	}
	line, err := json.Marshal(writtenAnswer{Path: path, Hash: next})
	if err != nil {
		return err
	}
	if err := w.add(append(line, '\n')); err != nil {
		return fmt.Errorf("record in %s: %w", AnswersFile, err)
	}
	w.hashes[path] = append(w.hashes[path], next)
	return nil
}

// errForeign means that the file that an answer would replace is not an answer.
var errForeign = errors.New("the file exists, and evalfleet did not write it: move it away, or choose another out")

// replaces returns why an answer must not replace the file at name below root: it is a folder,
// a link, or a file that contains neither next nor a recorded answer. next is the hash of the
// answer.
func (w *writtenAnswers) replaces(root *os.Root, name, next string) error {
	now, there, err := hashOf(root, name)
	if err != nil {
		return err
	}
	path := filepath.ToSlash(filepath.Clean(name))
	if there && now != next && !slices.Contains(w.hashes[path], now) {
		return errForeign
	}
	return nil
}

// Replaceable returns a function that reports why an answer must not be written at a path below a
// working folder, before there is an answer; nil: it may. It changes nothing.
func Replaceable(working string) (func(name string) error, error) {
	w, err := readWrittenAnswers(working)
	if err != nil {
		return nil, err
	}
	return func(name string) error {
		root, err := os.OpenRoot(working)
		if err != nil {
			return err
		}
		defer root.Close()
		return w.replaces(root, name, "")
	}, nil
}

// add appends a line in one write, so that several processes may append.
func (w *writtenAnswers) add(line []byte) error {
	root, err := os.OpenRoot(w.folder)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(filepath.Dir(AnswersFile), 0o700); err != nil {
		return err
	}
	file, err := root.OpenFile(AnswersFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(line)
	return errors.Join(err, file.Close())
}

// hashOf returns the hash of a file's content. there is false if there is nothing at name. It
// follows no symbolic link: anything but a regular file is an error.
func hashOf(root *os.Root, name string) (hash string, there bool, err error) {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	if !info.Mode().IsRegular() {
		return "", false, errors.New("an answer can replace only a regular file: choose another out")
	}
	file, err := root.Open(name)
	if err != nil {
		return "", false, err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", false, err
	}
	return hex.EncodeToString(sum.Sum(nil)), true, nil
}
