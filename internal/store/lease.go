package store

import (
	"math"
	"strings"
)

// Lease is a right that ends by itself.
type Lease struct {
	Name   string
	Holder string
	Token  int64  // only grows
	Until  int64  // when it expires by the store's clock; 0 = it was ended; WhileMember
	Value  []byte // what its holder says of itself, JSON
}

// WhileMember is the Until of a lease that is never renewed: it expires when the membership of its
// holder does, a lease whose name MembershipOf makes. So a node renews one row, however much it
// holds.
const WhileMember = math.MaxInt64

// MembershipOf is the name of the lease by which a holder is a member. A holder is a node, or one
// start of it, NODE@START.
func MembershipOf(holder string) string {
	return MembershipPrefix + NodeOf(holder)
}

// NodeOf is the name of the node that a holder is, or a start of. A node's name may have an @, a
// start has none, so the holder of such a name always ends with one.
func NodeOf(holder string) string {
	if i := strings.LastIndexByte(holder, '@'); i >= 0 {
		return holder[:i]
	}
	return holder
}

// IsMembership tells whether a lease of that name makes its holder a member.
func IsMembership(name string) bool { return strings.HasPrefix(name, MembershipPrefix) }

// MembershipPrefix begins the names of the leases that are nodes' memberships.
const MembershipPrefix = "node/"

// Granted answers who asked for leases.
type Granted struct {
	Now    int64
	Leases []Lease // those that it got
}

// Beat is what a node learns when it renews what it holds.
type Beat struct {
	Now    int64
	Kept   []Lease // of those it held: renewed
	Leases []Lease // what all hold, and what ended, by name
}
