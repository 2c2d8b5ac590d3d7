package config

import (
	"path/filepath"
	"slices"
	"strings"
)

// systemFolders hold no documents: files in them show processes and devices.
var systemFolders = []string{"/proc", "/sys", "/dev"}

// mayRead refuses a file that an evaluation file names and that is not below dir,
// also where symbolic links lead out of it. Options.AllowOutside allows it, except in
// systemFolders.
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
