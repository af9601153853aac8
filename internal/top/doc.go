// Package top is the terminal view of a cluster, `rota top`: how everything stands, the lists behind
// the numbers, and the few things that an operator does about them.
//
// All that it decides is pure. A [Model] is what is known and where the reader stands; Update makes
// another of it out of a key that was pressed or of what a server said, and says what is to be done
// about it ([Effect]); Lines draws it. Run is the loop around them: it owns the terminal, reads keys,
// follows the overview, and does what Update asks for through a [Source], one thing of a kind at a
// time. What comes from outside is shown as text, whatever it contains.
package top
