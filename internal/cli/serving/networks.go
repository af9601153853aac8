package serving

import (
	"fmt"
	"net/netip"
	"strings"
)

// networks is the value of a flag that lists networks.
type networks struct{ list *[]netip.Prefix }

func (n networks) String() string { return "" }
func (n networks) Type() string   { return "networks" }

// TakesMany says that a list may be given in several flags.
func (n networks) TakesMany() {}

func (n networks) Set(text string) error {
	for s := range strings.SplitSeq(text, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(s))
		if err != nil {
			return fmt.Errorf("%q is no network: want ADDRESS/BITS", s)
		}
		*n.list = append(*n.list, p.Masked())
	}
	return nil
}
