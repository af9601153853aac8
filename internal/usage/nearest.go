package usage

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Nearest is the known word that somebody probably meant by another one: the one that takes the
// fewest slips (a letter too many, too few, another, or two changed places), or that begins as the
// word does; "" when none is near. Of equally near ones it is the first in order.
func Nearest(word string, known []string) string {
	const mostSlips = 2
	n := utf8.RuneCountInString(word)
	best, least := "", min(mostSlips, n/2)+1
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := slips(word, k); d < least {
			best, least = k, d
		}
	}
	if best != "" || n < 2 {
		return best
	}
	for _, k := range slices.Sorted(slices.Values(known)) {
		if strings.HasPrefix(k, word) || strings.HasPrefix(word, k) && len(k) > 2 {
			return k
		}
	}
	return ""
}

// slips is how many slips make one word of another (Damerau and Levenshtein, each place once).
func slips(from, to string) int {
	a, b := []rune(from), []rune(to)
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			other := 1
			if a[i-1] == b[j-1] {
				other = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+other)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
