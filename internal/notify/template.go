package notify

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"text/template"
	"text/template/parse"
	"time"
)

// What a template of a notifier's own may cost. A template can loop without an end, call itself, or
// double a text again and again, and text/template can't be interrupted: so parseOwn puts a step
// before the body of every loop and of every template that others call, and whatever makes texts
// out of others is charged before it does.
const (
	maxSteps = 10_000      // bodies of loops, and templates that were called
	maxMade  = 1 << 20     // bytes of texts that its functions made
	maxTime  = time.Second // in all; it is looked at with every step
)

// meter is what one rendering has cost so far.
type meter struct {
	steps, made int
	until       time.Time
}

// costError says that a template costs too much.
type costError struct{ text string }

func (e *costError) Error() string { return e.text }

func (m *meter) step() (string, error) {
	m.steps++
	if m.steps > maxSteps {
		return "", &costError{
			fmt.Sprintf("the template repeats something more than %d times", maxSteps),
		}
	}
	if time.Now().After(m.until) {
		return "", &costError{fmt.Sprintf("the template takes longer than %v", maxTime)}
	}
	return "", nil
}

// make charges for a text of at most so many bytes.
func (m *meter) make(n int) error {
	if n > maxMade-m.made {
		return &costError{
			fmt.Sprintf("the template makes more than %d bytes out of texts", maxMade),
		}
	}
	m.made += n
	return nil
}

// widest is how many bytes a byte may become when it is formatted or escaped, as in &#34; or
// \u003C.
const widest = 10

// sizes is how much room values take when they are printed, at most.
func sizes(args []any) (n int) {
	for _, a := range args {
		switch v := reflect.ValueOf(a); v.Kind() {
		case reflect.String:
			n += widest * v.Len()
		case reflect.Map, reflect.Struct, reflect.Slice, reflect.Array, reflect.Interface,
			reflect.Pointer:
			n += widest * len(fmt.Sprint(a)) // of an event, which is short
		default:
			n += 64
		}
	}
	return n + 16*len(args)
}

// plainly is a function that prints its arguments.
func (m *meter) plainly(f func(...any) string) func(...any) (string, error) {
	return func(args ...any) (string, error) {
		if err := m.make(sizes(args)); err != nil {
			return "", err
		}
		return f(args...), nil
	}
}

func (m *meter) printf(format string, args ...any) (string, error) {
	padding, err := paddingOf(format)
	if err != nil {
		return "", err
	}
	if err := m.make(2*len(format) + padding + sizes(args)); err != nil {
		return "", err
	}
	return fmt.Sprintf(format, args...), nil
}

// paddingOf is the sum of a format's widths and precisions. One that takes a width from its
// arguments, or an argument twice, could make any amount of text out of little.
func paddingOf(format string) (sum int, err error) {
	for {
		_, rest, verb := strings.Cut(format, "%")
		if !verb {
			return sum, nil
		}
		n := 0
		for rest = strings.TrimLeft(rest, "+-# 0"); rest != "" &&
			(rest[0] == '.' || rest[0] >= '0' && rest[0] <= '9'); rest = rest[1:] {
			if rest[0] == '.' {
				sum, n = sum+n, 0
			} else if n = 10*n + int(rest[0]-'0'); n > maxPadding {
				return 0, &costError{fmt.Sprintf("printf: a width must be at most %d", maxPadding)}
			}
		}
		if sum += n; rest != "" && (rest[0] == '*' || rest[0] == '[') {
			return 0, &costError{"printf: %* and %[n] are not known here"}
		}
		format = strings.TrimPrefix(rest, "%")
	}
}

// maxPadding is how wide printf may make a value.
const maxPadding = 1000

// stepName is the function that parseOwn puts in.
const stepName = "_step"

// parseOwn reads a template of a notifier's own, whose rendering m bounds.
func parseOwn(text string, m *meter) (*template.Template, error) {
	functions := template.FuncMap{
		stepName: m.step, "printf": m.printf, "print": m.plainly(fmt.Sprint),
		"println": m.plainly(fmt.Sprintln),
		"html":    m.plainly(template.HTMLEscaper), "js": m.plainly(template.JSEscaper),
		"urlquery": m.plainly(template.URLQueryEscaper),
	}
	step := template.Must(template.New(stepName).Funcs(functions).Parse("{{" + stepName +
		"}}")).Root.Nodes[0]
	t, err := template.New("template").Option("missingkey=zero").Funcs(functions).Parse(text)
	if err != nil {
		return nil, err
	}
	for _, t := range t.Templates() {
		if t.Tree != nil && t.Root != nil {
			metered(t.Root, step)
			prepend(t.Root, step)
		}
	}
	return t, nil
}

// metered puts step before the body of every loop in a list.
func metered(list *parse.ListNode, step parse.Node) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		var branch *parse.BranchNode
		switch n := n.(type) {
		case *parse.RangeNode:
			branch = &n.BranchNode
		case *parse.IfNode:
			branch = &n.BranchNode
		case *parse.WithNode:
			branch = &n.BranchNode
		default:
			continue
		}
		metered(branch.List, step)
		metered(branch.ElseList, step)
		if loop, ok := n.(*parse.RangeNode); ok {
			prepend(loop.List, step)
		}
	}
}

func prepend(list *parse.ListNode, step parse.Node) {
	list.Nodes = append([]parse.Node{step.Copy()}, list.Nodes...)
}

// cheaper is the error of a rendering as it is shown: of one that costs too much only that.
func cheaper(err error) error {
	var cost *costError
	if errors.As(err, &cost) {
		return cost
	}
	return err
}
