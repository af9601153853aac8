// Package nodes has the commands about the nodes of a cluster: rota node, rota claim, rota cluster
// and rota forecast.
//
// Begin with node.go. claim.go is about the keys that nodes share out, cluster.go about what the
// cluster can bear, forecast.go about how many workers it needs.
package nodes
