// Package view has the types in which Rota answers questions about a cluster, its nodes, the keys
// that they look after, what happened, and what came of due times: what the REST API writes, and
// what the calls of package client (and so of a rota.Node) answer with. A program only reads them.
//
//	package main
//
//	import (
//		"context"
//		"fmt"
//		"log"
//
//		"github.com/rotahq/rota/client"
//		"github.com/rotahq/rota/view"
//	)
//
//	func unwell(cluster view.Cluster) (names []string) {
//		for _, n := range cluster.Nodes {
//			if n.State != view.NodeWorking {
//				names = append(names, n.Name)
//			}
//		}
//		return names
//	}
//
//	func main() {
//		c, err := client.New(client.Config{Servers: []string{"http://127.0.0.1:7700"}})
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer c.Close()
//		cluster, err := c.Cluster(context.Background())
//		if err != nil {
//			log.Fatal(err)
//		}
//		fmt.Println(unwell(cluster), cluster.Budget.Nodes)
//	}
//
// What programs write, too, has its type in package task (a task, a queue, a schedule, a job).
//
// # JSON and times
//
// Each type is written and read as the API's JSON. Every time is a [Time]: text by RFC 3339 in UTC
// with milliseconds, and null when there is none. A [Duration] is text as Go writes it.
package view
