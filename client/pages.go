package client

import "iter"

// All yields what stands on all pages of a list, one after the other. page is the call that reads
// the page at a cursor; an error is the last that All yields.
//
//	for t, err := range client.All(func(cursor string) ([]task.View, string, error) {
//		return c.Tasks(ctx, client.TaskFilter{Queue: "mail"}, cursor, 1000)
//	}) {
//		…
//	}
func All[T any](
	page func(cursor string) (items []T, next string, err error),
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor := ""; ; {
			items, next, err := page(cursor)
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			if next == "" || next == cursor { // the same again would never end
				return
			}
			cursor = next
		}
	}
}
