// Package notify tells people of events: by e-mail and by webhook, in the words of the chats that
// they use. It also has something done about them: a task submitted, a program run.
//
// A [Sender] reads the event log of the store behind what each notifier was served, sends one
// message for each event that the notifier is on, and advances. Events and notifiers are values of
// package store; how to write to whom is known here alone.
//
// # Guarantees
//
// Every event that a notifier is on is delivered to it at least once, in order, as long as the log
// keeps it. A message carries the event's seq as its id (webhook-id, Message-ID), so that whoever
// gets it twice can tell. Of many nodes one serves at a time: who holds the lease "notify/turn";
// and of two that do all the same, because one was stopped in the middle, one advances.
//
// An event that a notifier submits is one task however often it is sent: its key is the notifier's
// and the event's, and is remembered for longer than the event is kept. A program may be run twice
// for an event when a node ends while it runs. What a notifier does may cause events: none about
// itself or the queue that it submits to is acted on, and it rests for half a second for each act,
// so that what goes round in another way goes round slowly.
//
// Mail may go to the owner of what an event is about, as the queue, group or schedule says when it is
// sent. One without a mail address gets none, and one whose address the mail server refuses keeps
// nobody else's from going.
//
// # Failure
//
// A message that can't be delivered is tried again after 1 s, 2 s, 4 s … 5 min, and holds up those
// behind it at its own notifier, never another's. After an hour that becomes an event itself
// (notifier.failed), and so does its end (notifier.ok).
//
// # Safety
//
// No connection is made to a private, loopback or link-local address that the configuration does
// not allow: the address is checked when it is dialled, after the name was resolved. Redirects are
// not followed. Secrets, which the URLs of chats are too, stand in no error and no log.
package notify
