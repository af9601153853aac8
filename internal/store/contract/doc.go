// Package contract says what every store promises: one interface for each noun, and with each call
// what holds when it is answered ([Store] is all of them). It is prose that compiles. The rooms that
// use a store declare the few methods that they need, and point here for what these do.
//
// Promises that hold for every call:
//
//   - A write is one transaction: all of it or nothing. It is durable (fsynced) when the call
//     returns nil.
//   - A write does not stop half way when the caller's context ends; the context only bounds the
//     waiting before it starts.
//   - store.ErrUnknown means: perhaps. Repeating the same call with the same ids then gives the
//     answer that the first would have given.
//   - Writes by a holder change nothing once the holder's lease (name "node/NAME", token) is gone.
//   - What comes back is unordered unless said otherwise.
//
// All times are the store's own clock, in microseconds. In tests that is a [Clock], which stands
// still until it is moved.
//
// What is given and answered is in package store, above this one. Whether a store keeps its
// promises is shown beside this package: by the claims of storetest, one scene for each promise;
// and by walks (package walk), which ask two stores the same and compare their answers. One of the
// two is the model, the contract as a simple program. Who changes a promise changes it here first,
// then the model and a claim, then the stores.
package contract
