// Package events has the commands about what happened and who is told of it: rota events and rota
// notifier.
//
// events.go prints events, notifier.go looks after the notifiers that send them on.
package events
