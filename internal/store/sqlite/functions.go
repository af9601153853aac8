package sqlite

import (
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
)

// functions are what SQL can ask of bodies that package pack made. They are for lists: everything
// else reads whole rows.
var functions = map[string]*sqlite.FunctionImpl{
	// pack_last(lo, has) is the last task of a row of a pack.
	"pack_last": {NArgs: 2, Deterministic: true, AllowIndirect: true, Scalar: func(
		_ sqlite.Context, args []sqlite.Value,
	) (sqlite.Value, error) {
		last := pack.Bits(args[1].Int64()).Last(pack.Lo(int32(args[0].Int64())))
		return sqlite.IntegerValue(int64(last)), nil
	}},
	// pack_stage(body, has, n) is the stage that a task of a pack was submitted for.
	"pack_stage": {NArgs: 3, Deterministic: true, AllowIndirect: true, Scalar: func(
		_ sqlite.Context, args []sqlite.Value,
	) (sqlite.Value, error) {
		t, found, err := pack.FindTask(
			args[0].Blob(), pack.Bits(args[1].Int64()), int32(args[2].Int64()),
		)
		if err != nil || !found {
			return sqlite.Value{}, err
		}
		return sqlite.TextValue(t.Stage), nil
	}},
	// meta_has(meta, wanted) tells whether a meta has all of another; NULL for NULL.
	"meta_has": {NArgs: 2, Deterministic: true, AllowIndirect: true, Scalar: func(
		_ sqlite.Context, args []sqlite.Value,
	) (sqlite.Value, error) {
		if args[0].Type() == sqlite.TypeNull {
			return sqlite.Value{}, nil
		}
		has := int64(0)
		if store.Meta(args[0].Text()).Has(store.Meta(args[1].Text())) {
			has = 1
		}
		return sqlite.IntegerValue(has), nil
	}},
	// pack_meta(body, has, n, meta) tells whether a task of a pack was submitted with all of a
	// meta.
	"pack_meta": {NArgs: 4, Deterministic: true, AllowIndirect: true, Scalar: func(
		_ sqlite.Context, args []sqlite.Value,
	) (sqlite.Value, error) {
		t, found, err := pack.FindTask(
			args[0].Blob(), pack.Bits(args[1].Int64()), int32(args[2].Int64()),
		)
		has := int64(0)
		if found && t.Meta.Has(store.Meta(args[3].Text())) {
			has = 1
		}
		return sqlite.IntegerValue(has), err
	}},
	// mark_workers(body, lo, worker) are the bits of the outcomes in a mark that a worker brought.
	"mark_workers": {NArgs: 3, Deterministic: true, AllowIndirect: true, Scalar: func(
		_ sqlite.Context, args []sqlite.Value,
	) (sqlite.Value, error) {
		worker := args[2].Text()
		var bits pack.Bits
		err := pack.EachDone(args[0].Blob(), int32(args[1].Int64()), func(d *pack.Done) bool {
			if d.Worker == worker {
				bits |= pack.Bit(d.N)
			}
			return true
		})
		return sqlite.IntegerValue(int64(bits)), err
	}},
}

// addFunctions makes the functions known to a connection.
func (c *conn) addFunctions() error {
	for name, f := range functions {
		if err := c.CreateFunction(name, f); err != nil {
			return fmt.Errorf("make function %s: %w", name, err)
		}
	}
	return nil
}
