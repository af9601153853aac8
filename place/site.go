package place

// site is a worker.
type site struct {
	*Worker
	Capacity Load  // of the worker; here, because it is looked at most
	Used     Load  // the same
	keeps    Load  // of its capacity: what it is not to shed
	zone     int32 // number of its zone, or none
	lacks    bool  // a label of the selector
	closed   Code  // why it takes nothing, or empty
	load     Load  // of the slots that are to be on it
	held     Load  // of what is there and will go
	count    int32 // slots that are to be on it
	fresh    int32 // those of them whose home it is not
}

// taken is the load that stays.
func (s *site) taken() Load { return s.Used.plus(s.load) }

// crammed reports whether there is more on a site than its worker can carry.
func (s *site) crammed() bool {
	return s.load > 0 && s.taken() > s.Capacity || s.Most > 0 && int(s.count) > s.Most
}

// excess is what is to leave a site because its worker sheds; 0 or less = nothing is.
func (s *site) excess() Load {
	if s.Shed == 0 || s.closed != "" {
		return 0
	}
	return s.taken() - s.keeps
}

// crowded reports whether a site has as many replicas as it may have.
func (s *site) crowded() bool { return s.Most > 0 && int(s.count) >= s.Most }

// room is what will be free on a site, or is free now; below 0: nothing may come, even without a
// load.
func (s *site) room(now bool) Load {
	if s.closed != "" || s.crowded() {
		return -1
	}
	taken := s.taken().plus(s.Passing)
	if now {
		taken = taken.plus(s.held)
	}
	return s.keeps - taken
}
