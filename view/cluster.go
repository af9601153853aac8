package view

// Cluster is all nodes, and what the cluster can bear.
type Cluster struct {
	Keys      int     `json:"K" doc:"keys of which each needs a node that looks after it"`
	Working   int     `json:"S" doc:"nodes that work"`
	Unowned   int     `json:"unowned" doc:"keys that nobody looks after just now"`
	Tolerance int     `json:"tolerance" doc:"n: so many nodes may die at once by the configuration, the smallest of the nodes' own"`
	Rebalance string  `json:"rebalance" enum:"auto,manual" doc:"when nodes give keys back: auto, while one has more than its share and another fewer; manual, only what is above their caps"`
	Nodes     []Node  `json:"nodes" nullable:"false"`
	Budget    Budget  `json:"budget"`
	Store     string  `json:"store" doc:"kind of store"`
	Version   string  `json:"version" doc:"of the program that answers"`
	Chores    []Chore `json:"chores" nullable:"false"`
}

// Budget is how many can die now.
type Budget struct {
	Nodes   int      `json:"nodes" doc:"so many nodes, whichever they are, can die at once with every key still ownable"`
	Workers int      `json:"workers" doc:"so many workers, whichever they are, can die with every replica still placeable"`
	Weakest []string `json:"weakest" nullable:"false" doc:"nodes whose death would hurt most, the worst first: all of them at once are one too many"`
}

// Chore is what one node does for all.
type Chore struct {
	Name string `json:"name"`
	Node string `json:"node" doc:"the node that did it last"`
}
