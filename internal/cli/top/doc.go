// Package top has rota top, which shows everything at once.
//
// Package internal/top draws and reads keys; here is where its contents come from: source asks a
// node. lists.go and keys.go have the lists, open.go what is told of one thing. A thing is told of
// in the words of its own commands, so this package stands above those of the nouns.
package top
