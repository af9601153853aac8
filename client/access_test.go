package client_test

import (
	"context"
	"fmt"
	"slices"
)

func ExampleClient_Access() {
	c, shut := open()
	defer shut()
	a, err := c.Access(context.Background())
	must(err)
	fmt.Println(a.Role, a.Anonymous, slices.Contains(a.May, "operate"), a.Scope == nil)
	// Output: admin true true true
}
