//go:build unix

package postgres

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5/pgtype"
	"pgregory.net/rapid"
)

// The short way writes what pgx writes, byte for byte, but for what stands for the same: an array
// that says it may have NULLs.
func TestShortWayOfArraysWritesWhatTheLongOneDoes(t *testing.T) {
	long, short := pgtype.NewMap(), pgtype.NewMap()
	registerArrays(short)
	same := func(t *rapid.T, oid uint32, value any) {
		want, err := long.Encode(oid, pgtype.BinaryFormatCode, value, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := short.Encode(oid, pgtype.BinaryFormatCode, value, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) >= 8 && len(want) >= 8 {
			got[7], want[7] = 0, 0
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%T %v:\n got %x\nwant %x", value, value, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		same(t, pgtype.Int8ArrayOID, rapid.SliceOf(rapid.Int64()).Draw(t, "longs"))
		same(t, pgtype.Int4ArrayOID, rapid.SliceOf(rapid.Int32()).Draw(t, "ints"))
		same(t, pgtype.TextArrayOID, rapid.SliceOf(rapid.String()).Draw(t, "texts"))
		values := rapid.SliceOf(rapid.OneOf(rapid.SliceOf(rapid.Byte()),
			rapid.Just([]byte(nil)))).Draw(t, "values")
		same(t, pgtype.ByteaArrayOID, values)
		same(t, pgtype.Int8ArrayOID, []int64(nil)) // a column of NULLs
		same(t, pgtype.Int8ArrayOID, []int32{1})   // what goes the long way in both
	})
}

// The short way reads what the long one does.
func TestShortWayOfArraysReadsWhatTheLongOneDoes(t *testing.T) {
	long, short := pgtype.NewMap(), pgtype.NewMap()
	registerArrays(short)
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(rapid.OneOf(rapid.SliceOf(rapid.Byte()),
			rapid.Just([]byte(nil)))).Draw(t, "values")
		written, err := long.Encode(pgtype.ByteaArrayOID, pgtype.BinaryFormatCode, values, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, want := [][]byte{{1}}, [][]byte{{1}}
		if err := short.Scan(pgtype.ByteaArrayOID, pgtype.BinaryFormatCode, written,
			&got); err != nil {
			t.Fatal(err)
		}
		if err := long.Scan(pgtype.ByteaArrayOID, pgtype.BinaryFormatCode, written,
			&want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%x:\n%s", written, diff)
		}
		for i := range got {
			if (got[i] == nil) != (values[i] == nil) {
				t.Errorf("value %d: %v, want %v", i, got[i], values[i])
			}
		}
		short.Scan(pgtype.ByteaArrayOID, pgtype.BinaryFormatCode, // no panic
			written[:rapid.IntRange(0, max(len(written)-1, 0)).Draw(t, "cut")], &got)
	})
	if err := short.Scan(pgtype.ByteaArrayOID, pgtype.BinaryFormatCode, make([]byte, 11),
		new([][]byte)); err == nil {
		t.Error("eleven bytes are an array")
	}
}
