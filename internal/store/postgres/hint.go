package postgres

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Hint tells a node that something changed which concerns it. Hints may be lost, come late or
// twice: looking again every beat is the truth. The zero Hint says that some may have been lost.
type Hint struct {
	Queue string    // has tasks that are ready since a moment
	Ended string    // a queue with limits, of which tasks have ended
	Node  string    // holds the spans of Tasks
	Tasks []task.ID // to which somebody else did something
	Want  bool      // no: somebody else wants to change them, and the node is to give them back
	Group string    // of jobs: it, its jobs or its assignments are others
	Seats bool      // of workers that serve groups are others
	// Limits of a queue are others.
	Limits bool
	Offer  store.Offer // free tasks, and who had better take them
	Room   Room
}

// Room is how many tasks the workers that wait at a node could begin now, by queue.
type Room struct {
	Node   string
	Queues map[string]int
}

// payloadLimit is PostgreSQL's, in bytes, and a little less.
const payloadLimit = 7900

// payload is a hint as text: "ORIGIN queue NAME", "ORIGIN ended NAME", "ORIGIN group NAME", "ORIGIN
// seats", "ORIGIN limits", "ORIGIN node NAME ID ID …" or "ORIGIN want NAME ID ID …", in as many
// pieces as are needed; "ORIGIN ready QUEUE RANK NODE=TASKS …" or "ORIGIN room NODE QUEUE=TASKS …",
// as far as one piece carries them.
func (h Hint) payload(origin string) (list []string) {
	switch {
	case h.Queue != "":
		return []string{origin + " queue " + h.Queue}
	case h.Ended != "":
		return []string{origin + " ended " + h.Ended}
	case h.Group != "":
		return []string{origin + " group " + h.Group}
	case h.Seats:
		return []string{origin + " seats"}
	case h.Limits:
		return []string{origin + " limits"}
	case h.Offer.Queue != "":
		text := fmt.Sprintf("%s ready %s %d", origin, h.Offer.Queue, h.Offer.Rank)
		for _, s := range h.Offer.Shares {
			text = withCount(text, s.Node, s.Tasks)
		}
		return []string{text}
	case h.Room.Node != "":
		text := origin + " room " + h.Room.Node
		for _, queue := range slices.Sorted(maps.Keys(h.Room.Queues)) {
			text = withCount(text, queue, h.Room.Queues[queue])
		}
		return []string{text}
	}
	word := " node "
	if h.Want {
		word = " want "
	}
	var b strings.Builder
	for _, id := range h.Tasks {
		if b.Len() > 0 && b.Len()+32 > payloadLimit {
			list = append(list, b.String())
			b.Reset()
		}
		if b.Len() == 0 {
			b.WriteString(origin + word + h.Node)
		}
		b.WriteString(" " + id.String())
	}
	return append(list, b.String())
}

// withCount adds a name with a number to a payload that has room for it.
func withCount(text, name string, n int) string {
	if word := fmt.Sprintf(" %s=%d", name, n); len(text)+len(word) <= payloadLimit {
		return text + word
	}
	return text
}

// parseCount is the inverse of withCount.
func parseCount(word string) (name string, n int, err error) {
	name, digits, _ := strings.Cut(word, "=")
	n, err = strconv.Atoi(digits)
	if err != nil || name == "" || strconv.Itoa(n) != digits || n < 1 {
		return "", 0, errPayload
	}
	return name, n, nil
}

// parseOffer reads the words of an offer.
func parseOffer(words []string) (h Hint, err error) {
	h.Offer.Queue = words[0]
	if h.Offer.Rank, err = strconv.ParseInt(words[1], 10, 64); err != nil ||
		strconv.FormatInt(h.Offer.Rank, 10) != words[1] {
		return Hint{}, errPayload
	}
	for _, word := range words[2:] {
		node, n, err := parseCount(word)
		if err != nil {
			return Hint{}, err
		}
		h.Offer.Shares = append(h.Offer.Shares, store.Share{
			Queue: h.Offer.Queue, Node: node, Tasks: n,
		})
	}
	return h, nil
}

// parseRoom reads the words of a room.
func parseRoom(words []string) (h Hint, err error) {
	h.Room = Room{Node: words[0], Queues: map[string]int{}}
	last := ""
	for _, word := range words[1:] {
		queue, n, err := parseCount(word)
		if err != nil || queue <= last {
			return Hint{}, errPayload
		}
		h.Room.Queues[queue], last = n, queue
	}
	return h, nil
}

var errPayload = errors.New("not a hint")

// parseHint is the inverse of payload.
func parseHint(text string) (origin string, h Hint, err error) {
	words := strings.Split(text, " ")
	switch {
	case len(words) == 3 && words[1] == "queue" && words[2] != "":
		return words[0], Hint{Queue: words[2]}, nil
	case len(words) == 3 && words[1] == "ended" && words[2] != "":
		return words[0], Hint{Ended: words[2]}, nil
	case len(words) == 3 && words[1] == "group" && words[2] != "":
		return words[0], Hint{Group: words[2]}, nil
	case len(words) == 2 && words[1] == "seats":
		return words[0], Hint{Seats: true}, nil
	case len(words) == 2 && words[1] == "limits":
		return words[0], Hint{Limits: true}, nil
	case len(words) >= 4 && words[1] == "ready" && words[2] != "":
		if h, err = parseOffer(words[2:]); err != nil {
			err = fmt.Errorf("read %.60q: %w", text, err)
		}
		return words[0], h, err
	case len(words) >= 3 && words[1] == "room" && words[2] != "":
		if h, err = parseRoom(words[2:]); err != nil {
			err = fmt.Errorf("read %.60q: %w", text, err)
		}
		return words[0], h, err
	case len(words) < 4 || words[1] != "node" && words[1] != "want" || words[2] == "":
		return "", Hint{}, fmt.Errorf("read %.60q: %w", text, errPayload)
	}
	h.Node, h.Want = words[2], words[1] == "want"
	for _, word := range words[3:] {
		id, err := task.ParseID(word)
		if err != nil {
			return "", Hint{}, fmt.Errorf("read %.60q: %w: %w", text, errPayload, err)
		}
		h.Tasks = append(h.Tasks, id)
	}
	return words[0], h, nil
}
