package firing

// core is what all parts of a firer have in common: the store, and when schedules are due. There is
// no lock here: nothing of schedules is kept in memory, and a part guards the little that it keeps.
type core struct {
	conf  Config
	store Store
	times *timetables
	bell  chan struct{} // of size 1: there is something to fire now
}

// Hear takes in a hint that something may be due.
func (c *core) Hear() {
	select {
	case c.bell <- struct{}{}:
	default: // one is enough
	}
}

// now is what the store's clock reads, in microseconds.
func (c *core) now() int64 { return c.conf.Now().UnixMicro() }
