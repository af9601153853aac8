package sqlite

import (
	"os"

	"golang.org/x/sys/windows"
)

// names is how many names a file has.
func names(f *os.File) (uint64, error) {
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &info); err != nil {
		return 0, err
	}
	return uint64(info.NumberOfLinks), nil
}
