package config

import (
	"path/filepath"
	"slices"
	"strings"
)

// systemFolders lists folders without documents: their files show processes and devices.
var systemFolders = []string{"/proc", "/sys", "/dev"}

// mayRead reports whether a file that an evaluation file names may be read, and refuses it
// otherwise. The file must be below dir, also after following symbolic links. Options.AllowOutside
// allows other files, except in systemFolders.
func (s *draft) mayRead(at place, dir, path string) bool {
	real := realPath(path)
	if slices.ContainsFunc(systemFolders, func(folder string) bool { return isBelow(folder, real) }) {
		s.refuse(at, "copy its content into a file", "%s is in a system folder", path)
		return false
	}
	if s.options.AllowOutside || isBelow(realPath(dir), real) {
		return true
	}
	s.refuse(at, "move it there, or add --allow-outside", "%s is outside the folder %s", path, dir)
	return false
}

// isBelow reports whether an absolute path is a folder or below it.
func isBelow(folder, path string) bool {
	below, err := filepath.Rel(folder, path)
	return err == nil && below != ".." && !strings.HasPrefix(below, ".."+string(filepath.Separator))
}
