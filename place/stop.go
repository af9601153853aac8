package place

// stopEvery is after how many steps a policy is asked whether to go on: some tens of microseconds.
const stopEvery = 4096

// pace counts steps, so that who is no longer wanted can be ended in the middle of it. The call
// that made it catches what it ends with.
type pace struct {
	stop func() error
	left int
}

// stopped carries the error of Policy.Stop up to the call that it ends.
type stopped struct{ error }

// step notes n steps.
func (p *pace) step(n int) {
	if p.left -= n; p.left > 0 || p.stop == nil {
		return
	}
	p.left = stopEvery
	if err := p.stop(); err != nil {
		panic(stopped{err})
	}
}

// ended makes the error of Policy.Stop what a call answers, deferred.
func ended(err *error) {
	switch p := recover().(type) {
	case nil:
	case stopped:
		*err = p.error
	default:
		panic(p)
	}
}
