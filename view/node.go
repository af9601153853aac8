package view

// NodeState is how a node stands, as all nodes see it.
type NodeState string

// States of a node.
const (
	NodeWorking  NodeState = "working"
	NodeDraining NodeState = "draining" // takes nothing new
	NodeDrained  NodeState = "drained"  // and looks after no key any more
	// most others can't reach it: it gives back what it looks after
	NodeUnreachable NodeState = "unreachable"
	NodeOffline     NodeState = "offline" // it is dead
	NodeLeft        NodeState = "left"    // it stopped in order
)

// Node is a server of the cluster.
type Node struct {
	Name      string     `json:"name"`
	Address   string     `json:"address" doc:"where it is reached; empty = it does not say"`
	State     NodeState  `json:"state" enum:"working,draining,drained,unreachable,offline,left"`
	Score     float64    `json:"score" doc:"how busy it is: 0 idle to 100"`
	CPU       float64    `json:"cpu" doc:"in use, as a share of the maximum"`
	Memory    float64    `json:"memory" doc:"in use, as a share of the maximum"`
	Executors int        `json:"executors" doc:"tasks that it runs itself, at most"`
	Running   int        `json:"running" doc:"tasks that it runs itself"`
	Tasks     int        `json:"tasks" doc:"that it holds, waiting or in workers' hands"`
	Claims    NodeClaims `json:"claims" doc:"keys that it looks after"`
	Strikes   []Strike   `json:"strikes" nullable:"false" doc:"nodes that did not reach it, and how often in a row"`
	Joined    Time       `json:"joined" nullable:"true"`
	Seen      Time       `json:"seen" nullable:"true" doc:"when it renewed its membership last"`
	Down      Time       `json:"down" nullable:"true" doc:"when it ended, or was found gone; null while it lives. It is listed for a day"`
}

// NodeClaims is how many keys a node looks after, and may.
type NodeClaims struct {
	Owned  int `json:"owned"`
	Target int `json:"target" doc:"its share"`
	Cap    int `json:"cap" doc:"at most; what nobody takes for three beats is taken all the same"`
	Alarm  int `json:"alarm" doc:"more raise an alarm; 0 = never"`
}

// Strike is what one node found of another.
type Strike struct {
	By     string `json:"by"`
	Misses int    `json:"misses"` // in a row
}

// Claim is a key of which exactly one node looks after.
type Claim struct {
	Key   string `json:"key" doc:"its kind, a slash, and its name among those of the kind"`
	Owner string `json:"owner" doc:"the node that looks after it; empty = none does"`
	Token int64  `json:"token" doc:"greater for every later owner"`
	Since Time   `json:"since" nullable:"true" doc:"when the owner got it"`
	Until Time   `json:"until" nullable:"true" doc:"when its right ends unless it is renewed"`

	Assigned *Assigned `json:"assigned,omitempty" doc:"that somebody gave it to a node; left out when nobody did, or that is over"`
}

// Assigned is somebody's decision that a node is to look after a key.
type Assigned struct {
	Node  string `json:"node" doc:"while it does not work others have the key"`
	By    string `json:"by" doc:"who decided"`
	Until Time   `json:"until" doc:"when the decision is over"`
}
