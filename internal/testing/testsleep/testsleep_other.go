//go:build !(linux && amd64)

package testsleep

import "errors"

// Suspend returns errors.ErrUnsupported on this platform.
func Suspend(int) (wake func() error, err error) {
	return nil, errors.ErrUnsupported
}
