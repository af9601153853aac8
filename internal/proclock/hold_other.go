//go:build !linux

package proclock

func hold(string) (where string, let func() error, err error) { return "", nil, ErrUnsupported }
