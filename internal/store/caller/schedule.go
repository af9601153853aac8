package caller

import "github.com/rotahq/rota/internal/store"

// Seen is a put of a schedule as it was seen, but for what edit changes; it begins now.
func Seen(is store.Schedule, edit func(*store.SchedulePut)) store.SchedulePut {
	p := store.SchedulePut{
		Schedule: is.Schedule, Version: is.Version, Next: is.Next, Since: is.Since, First: is.First,
		Then: is.Next,
	}
	edit(&p)
	return p
}
