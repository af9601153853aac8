package store

// Change makes a configuration what it is to be. It is given what stands or, when stands is false,
// the defaults of a new one, which it creates. An error refuses: nothing is changed then, and the
// error is answered, wrapped. The name stays whatever it does.
//
// Stores call it inside the transaction that writes, so that no other change is lost; and as often
// as they have to. So it only computes: it waits for nobody and keeps nothing from one call for the
// next.
type Change[T any] func(is *T, stands bool) error

// Whole is the change that replaces everything.
func Whole[T any](by T) Change[T] {
	return func(is *T, _ bool) error {
		*is = by
		return nil
	}
}

// Changed is a configuration as a change left it.
type Changed[T any] struct {
	Is      T
	Created bool
	// Unheard are nodes that do not go by it yet, of a change that a node answers when all do; a
	// store says nothing of it.
	Unheard []string
}
