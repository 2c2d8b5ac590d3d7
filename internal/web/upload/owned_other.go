//go:build !unix

package upload

import "io/fs"

// owned returns true: on these systems, each user has a temporary folder of their own.
func owned(fs.FileInfo) bool { return true }
