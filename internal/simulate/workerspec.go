package simulate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
)

// workerSpec is a number of workers that are alike.
type workerSpec struct {
	Count    int
	Capacity task.Units
	Labels   map[string]string
	Zone     string
}

// maxMadeUp is how many workers alike can be thought of.
const maxMadeUp = 100_000

// ParseWorkers reads workers as flags take them: [COUNTx]CAPACITY[@k=v[,k=v…]], more of them behind
// commas. The label zone is the zone.
func ParseWorkers(text string) ([]workerSpec, error) {
	var specs []workerSpec
	for piece := range strings.SplitSeq(text, ",") {
		size, label, labelled := strings.Cut(piece, "@")
		if !labelled && strings.Contains(piece, "=") && len(specs) > 0 {
			// one more label of those before
			label, labelled = piece, true
		} else {
			spec, err := parseSize(size)
			if err != nil {
				return nil, usage.Errorf("workers %q: %v", piece, err)
			}
			specs = append(specs, spec)
		}
		if labelled {
			if err := specs[len(specs)-1].label(label); err != nil {
				return nil, usage.Errorf("workers %q: %v", piece, err)
			}
		}
	}
	return specs, nil
}

// parseSize reads [COUNTx]CAPACITY.
func parseSize(text string) (workerSpec, error) {
	spec := workerSpec{Count: 1}
	times, capacity, counted := strings.Cut(text, "x")
	if counted {
		n, err := strconv.Atoi(times)
		if err != nil || n < 1 || n > maxMadeUp {
			return spec,
				fmt.Errorf("want COUNTxCAPACITY with a count of 1 to %d, as in 3x60", maxMadeUp)
		}
		spec.Count = n
	} else {
		capacity = times
	}
	f, err := strconv.ParseFloat(capacity, 64)
	if err != nil {
		return spec, errors.New("want a capacity, as in 60, 3x60 or 3x60@zone=a")
	}
	if spec.Capacity, err = task.ParseUnits(f); err != nil {
		return spec, fmt.Errorf("capacity %v", err)
	}
	return spec, nil
}

// label adds k=v.
func (s *workerSpec) label(text string) error {
	k, v, ok := strings.Cut(text, "=")
	var e task.InvalidError
	if limits.CheckLabels(&e, "label", map[string]string{k: v}); !ok || e.Err() != nil {
		return fmt.Errorf("label %q: want k=v, short and printable", text)
	}
	_, twice := s.Labels[k]
	switch {
	case twice || k == "zone" && s.Zone != "":
		return fmt.Errorf("label %q comes twice", k)
	case k == "zone":
		s.Zone = v
	case s.Labels == nil:
		s.Labels = map[string]string{k: v}
	default:
		s.Labels[k] = v
	}
	return nil
}

// ParseSelector reads labels; "" is none.
func ParseSelector(pairs []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, pair := range pairs {
		k, v, ok := strings.Cut(pair, "=")
		if pair == "" {
			continue
		}
		if !ok || k == "" {
			return nil, usage.Errorf("--selector %q: want k=v", pair)
		}
		labels[k] = v
	}
	return labels, nil
}
