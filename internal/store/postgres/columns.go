package postgres

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/jackc/pgx/v5/pgtype"
)

// Statements are given rows as columns: one array for each, which unnest joins to rows again. A nil
// slice is a column of NULLs.

// common is what all of a column have in common, if they do: then the column is nil.
func common[T comparable](column []T) (one T, rest []T) {
	for i := range column {
		if column[i] != column[0] {
			return one, column
		}
	}
	if len(column) > 0 {
		one = column[0]
	}
	return one, nil
}

// arrays is pgx's codec for arrays of one type, with a short way for the slices that come here by
// the thousand.
type arrays struct {
	*pgtype.ArrayCodec
	elem uint32
}

// registerArrays makes a connection take the short way. Others, as those of SubmitTx, take the same
// slices the long way.
func registerArrays(m *pgtype.Map) {
	for name, array := range map[string]struct{ oid, elem uint32 }{
		"_int8":  {pgtype.Int8ArrayOID, pgtype.Int8OID},
		"_int4":  {pgtype.Int4ArrayOID, pgtype.Int4OID},
		"_text":  {pgtype.TextArrayOID, pgtype.TextOID},
		"_bytea": {pgtype.ByteaArrayOID, pgtype.ByteaOID},
	} {
		elem, _ := m.TypeForOID(array.elem)
		m.RegisterType(&pgtype.Type{
			Name: name, OID: array.oid,
			Codec: arrays{&pgtype.ArrayCodec{ElementType: elem}, array.elem},
		})
	}
}

// PlanEncode chooses the short way where there is one.
func (a arrays) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		switch value.(type) {
		case []int64:
			if a.elem == pgtype.Int8OID {
				return encodeInt8s{}
			}
		case []int32:
			if a.elem == pgtype.Int4OID {
				return encodeInt4s{}
			}
		case []string:
			if a.elem == pgtype.TextOID {
				return encodeTexts{}
			}
		case [][]byte:
			if a.elem == pgtype.ByteaOID {
				return encodeBytes{}
			}
		}
	}
	return a.ArrayCodec.PlanEncode(m, oid, format, value)
}

// PlanScan chooses a short way for contexts.
func (a arrays) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*[][]byte); ok && format == pgtype.BinaryFormatCode &&
		a.elem == pgtype.ByteaOID {
		return scanBytes{}
	}
	return a.ArrayCodec.PlanScan(m, oid, format, target)
}

// header begins an array of one dimension, as PostgreSQL's array_recv reads it: dimensions, whether
// there are NULLs, the type of the elements, their number, the first index. Each element follows
// its length, -1 for NULL.
func header(buf []byte, elem uint32, n int, nulls bool) []byte {
	flag := uint32(0)
	if nulls {
		flag = 1
	}
	buf = binary.BigEndian.AppendUint32(buf, 1)
	buf = binary.BigEndian.AppendUint32(buf, flag)
	buf = binary.BigEndian.AppendUint32(buf, elem)
	buf = binary.BigEndian.AppendUint32(buf, uint32(n))
	return binary.BigEndian.AppendUint32(buf, 1)
}

type encodeInt8s struct{}

func (encodeInt8s) Encode(value any, buf []byte) ([]byte, error) {
	list := value.([]int64)
	buf = header(buf, pgtype.Int8OID, len(list), false)
	for _, v := range list {
		buf = binary.BigEndian.AppendUint32(buf, 8)
		buf = binary.BigEndian.AppendUint64(buf, uint64(v))
	}
	return buf, nil
}

type encodeInt4s struct{}

func (encodeInt4s) Encode(value any, buf []byte) ([]byte, error) {
	list := value.([]int32)
	buf = header(buf, pgtype.Int4OID, len(list), false)
	for _, v := range list {
		buf = binary.BigEndian.AppendUint32(buf, 4)
		buf = binary.BigEndian.AppendUint32(buf, uint32(v))
	}
	return buf, nil
}

type encodeTexts struct{}

func (encodeTexts) Encode(value any, buf []byte) ([]byte, error) {
	list := value.([]string)
	buf = header(buf, pgtype.TextOID, len(list), false)
	for _, v := range list {
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(v)))
		buf = append(buf, v...)
	}
	return buf, nil
}

type encodeBytes struct{}

// Encode makes NULL of nil.
func (encodeBytes) Encode(value any, buf []byte) ([]byte, error) {
	list := value.([][]byte)
	buf = header(buf, pgtype.ByteaOID, len(list), true)
	for _, v := range list {
		if v == nil {
			buf = binary.BigEndian.AppendUint32(buf, 0xffffffff)
			continue
		}
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(v)))
		buf = append(buf, v...)
	}
	return buf, nil
}

type scanBytes struct{}

// Scan makes nil of NULL. Each value is a copy of its own: one that is kept for long keeps no
// others.
func (scanBytes) Scan(src []byte, target any) error {
	list := target.(*[][]byte)
	*list = nil
	if src == nil {
		return nil
	}
	const dimension = 20 // bytes before the first element
	if len(src) < 12 || binary.BigEndian.Uint32(src) > 1 {
		return errArray
	}
	if binary.BigEndian.Uint32(src) == 0 {
		return nil
	}
	if len(src) < dimension {
		return errArray
	}
	n, rest := int(binary.BigEndian.Uint32(src[12:])), src[dimension:]
	if n > len(rest)/4 {
		return errArray
	}
	*list = make([][]byte, n)
	for i := range *list {
		if len(rest) < 4 {
			return errArray
		}
		size := int32(binary.BigEndian.Uint32(rest))
		if rest = rest[4:]; size < 0 {
			continue
		}
		if int(size) > len(rest) {
			return errArray
		}
		(*list)[i], rest = bytes.Clone(rest[:size]), rest[size:]
	}
	return nil
}

var errArray = errors.New("an array of bytes does not follow the format")
