// Package recording makes an animated picture, docs/img/demo.svg, of what a program writes to a
// terminal: Screen plays the bytes, Film keeps how each row looked and when, and SVG draws that as
// text which CSS moves. The README shows it. The test records the real `rota demo`: make recording.
package recording
