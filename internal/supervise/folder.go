package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Folder is what sources of kind file may name: the regular files below one folder of this machine.
// Symbolic links are followed as far as they stay below it.
type Folder struct {
	name string
	root *os.Root
}

// OpenFolder opens a folder; "" is none, from which nothing is read.
func OpenFolder(name string) (*Folder, error) {
	if name == "" {
		return nil, nil
	}
	whole, err := filepath.Abs(name)
	if err != nil {
		return nil, fmt.Errorf("find folder of sources %q: %w", name, err)
	}
	root, err := os.OpenRoot(whole)
	if err != nil {
		return nil, fmt.Errorf("open folder of sources: %w", err)
	}
	return &Folder{whole, root}, nil
}

// Close lets go of the folder. What is being read goes on.
func (f *Folder) Close() error {
	if f == nil {
		return nil
	}
	return f.root.Close()
}

// errNoFolder is what groups with a source of kind file are told by a node that reads none.
var errNoFolder = errors.New(
	"this node reads no files of sources: start it with --source-folder and the folder that the lists are in")

// Inside is a path as the folder knows it, or says why no file at that path is read. It does not
// look whether there is one.
func (f *Folder) Inside(path string) (string, error) {
	if f == nil {
		return "", errNoFolder
	}
	name, err := filepath.Rel(f.name, filepath.Clean(path))
	if err != nil || name == "." || !filepath.IsLocal(name) {
		return "", fmt.Errorf(
			"%s is not in the folder that this node reads sources from, %s (--source-folder)", path,
			f.name,
		)
	}
	return name, nil
}

// stat is what is known of a file without reading it.
func (f *Folder) stat(path string) (os.FileInfo, error) {
	name, err := f.Inside(path)
	if err != nil {
		return nil, err
	}
	return f.root.Stat(name)
}

// read reads a regular file up to a limit. Of what can be waited for without a thread, as of a
// device, it waits until ctx ends; of the rest as long as the system takes.
func (f *Folder) read(ctx context.Context, path string, c Sources) ([]byte, error) {
	name, err := f.Inside(path)
	if err != nil {
		return nil, err
	}
	if info, err := f.root.Stat(name); err != nil {
		// before it is opened: that alone may have effects on what is no file
		return nil, err
	} else if err := c.fits(path, info); err != nil {
		return nil, err
	}
	file, err := f.root.OpenFile(name, os.O_RDONLY|noWait, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	stop := context.AfterFunc(ctx, func() { file.Close() })
	defer stop()
	if info, err := file.Stat(); err != nil { // it may be another one by now
		return nil, err
	} else if err := c.fits(path, info); err != nil {
		return nil, err
	}
	text, err := c.bounded(file)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return text, err
}

// fits refuses what is no regular file, since a pipe might never end, nor even begin, and what says
// too much.
func (c Sources) fits(path string, info os.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file", path)
	case info.Size() > c.Limit:
		return c.tooLong()
	}
	return nil
}
