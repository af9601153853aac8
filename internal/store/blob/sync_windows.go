package blob

// sync has nothing to do: Windows can't flush a directory, its file systems journal the names.
func (f *Folder) sync(string) error { return nil }
