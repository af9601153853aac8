package balance

import (
	"cmp"
	"slices"
)

// Rendezvous is the height of a key for a node: who looks after a key is, as far as there is room,
// the node for which it stands highest (Thaler and Ravishankar 1998). Each node so has its own
// order of keys and each key its own order of nodes, and when a node comes or goes the others'
// orders stay as they are.
//
// It is a fixed function of the bytes of both names, the same on every platform and in every
// version: with h the 64-bit FNV-1a hash and mix the finalizer of SplitMix64, mix(h(key) ^
// mix(h(node))).
func Rendezvous(node, key string) uint64 { return height(hashed(node), fnv(key)) }

// SortKeys puts keys into the node's own order: highest first, equals by name.
func SortKeys(keys []string, node string) {
	h := hashed(node)
	sortByHeight(keys, func(key string) uint64 { return height(h, fnv(key)) })
}

// SortNodes puts nodes into the key's own order: the one that should own it first, equals by name.
func SortNodes(nodes []string, key string) {
	h := fnv(key)
	sortByHeight(nodes, func(node string) uint64 { return height(hashed(node), h) })
}

func sortByHeight(names []string, of func(string) uint64) {
	type rank struct {
		name   string
		height uint64
	}
	ranks := make([]rank, len(names))
	for i, name := range names {
		ranks[i] = rank{name, of(name)}
	}
	slices.SortFunc(ranks, func(a, b rank) int {
		return cmp.Or(cmp.Compare(b.height, a.height), cmp.Compare(a.name, b.name))
	})
	for i, r := range ranks {
		names[i] = r.name
	}
}

// height joins the hashes of a node (by hashed) and a key (by fnv).
func height(node, key uint64) uint64 { return mix(key ^ node) }

func hashed(node string) uint64 { return mix(fnv(node)) }

// fnv is the 64-bit FNV-1a hash.
func fnv(s string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return h
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood 2014): every input bit reaches every
// output bit.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
