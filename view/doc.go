// Package view has the types in which Rota answers questions about a cluster, its nodes, the keys
// that they look after, what happened, and what came of due times: what the REST API writes, and
// what the calls of package client (and so of a rota.Node) answer with. A program only reads them.
//
//	func unwell(ctx context.Context, c *client.Client) ([]view.Node, error) {
//		cluster, err := c.Cluster(ctx)
//		if err != nil {
//			return nil, err
//		}
//		return slices.DeleteFunc(cluster.Nodes, func(n view.Node) bool {
//			return n.State == view.NodeWorking
//		}), nil
//	}
//
// What programs write, too, has its type in package task (a task, a queue, a schedule, a job).
//
// # JSON and times
//
// Each type is written and read as the API's JSON. Every time is a [Time]: text by RFC 3339 in UTC
// with milliseconds, and null when there is none. A [Duration] is text as Go writes it.
package view
