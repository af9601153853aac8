package limits_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

func TestAChildIsCheckedAsATaskThatHasAParent(t *testing.T) {
	for _, test := range []struct {
		child task.Submission
		want  string
	}{
		{task.Submission{Queue: "mail", Key: "7", Orphan: true}, ""},
		{task.Submission{Queue: " "}, `at.queue: " " ` + limits.NameRule},
		{task.Submission{Queue: "mail", Unique: &task.Unique{Key: "7"}},
			"at.unique: children have none: give a key instead, which makes a task the only one " +
				"of its queue as long as the key is remembered"},
	} {
		e := &task.InvalidError{}
		limits.CheckChild(&test.child, e, "at")
		if got := e.Error(); got != test.want {
			t.Errorf("%+v: %q, want %q", test.child, got, test.want)
		}
	}
	e := &task.InvalidError{}
	limits.CheckSubmission(&task.Submission{Queue: "mail", Orphan: true}, e, "at")
	want := "at.orphan: is for children: a task that nobody spawns has no parent"
	if got := e.Error(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAChildHasTheStringsOfItsParent(t *testing.T) {
	parent := map[string]string{"customer": "7", "trace": "a"}
	child := limits.WithMeta(
		task.Submission{Queue: "mail", Meta: map[string]string{"trace": "b", "page": "1"}}, parent)
	want := map[string]string{"customer": "7", "trace": "b", "page": "1"}
	if !maps.Equal(child.Meta, want) || parent["trace"] != "a" {
		t.Errorf("%v of %v", child.Meta, parent)
	}
	if got := limits.WithMeta(task.Submission{}, nil).Meta; got != nil {
		t.Errorf("none of none is %v", got)
	}
	parent = map[string]string{}
	for i := range limits.MaxMeta {
		parent[strings.Repeat("m", i+1)] = ""
	}
	child = limits.WithMeta(task.Submission{Queue: "q", Meta: map[string]string{"n": ""}}, parent)
	e := &task.InvalidError{}
	limits.CheckChild(&child, e, "at")
	if got, want := e.Error(), "at.meta: 17 strings are too many: at most 16"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
