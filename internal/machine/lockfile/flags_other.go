//go:build !unix

package lockfile

import "os"

const openFlags = os.O_CREATE | os.O_RDWR
