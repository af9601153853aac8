// Package app is one run of the program rota, and what all its commands share.
//
// App is that run: its streams and environment, the flags that mean the same in every command, and
// what happens when the command fails. Begin with app.go and connect.go: a command that talks to a
// node is made by Remote, and gets a client and its arguments; one that only has commands below it
// is made by Family. The other files are one thing each: arguments (Takes, CheckNames), flags
// (Optional, MetaFlag, Moment), input and secrets, logs, lists that are watched (watch.go), names
// that shells offer (completion.go), and the settings that flags get from the environment and from
// a file (settings.go).
//
// What one noun alone needs is not here but in the package of its commands.
package app
