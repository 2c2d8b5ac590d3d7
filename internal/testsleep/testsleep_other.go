//go:build !(linux && amd64)

package testsleep

import "errors"

// Suspend is not available here.
func Suspend(int) (wake func() error, err error) {
	return nil, errors.ErrUnsupported
}
