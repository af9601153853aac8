// Diamond does four tasks in the order that they ask for: a text is fetched, its words and its
// letters are counted at the same time, and a report is written of both. README.md tells how to
// try it, and what holds.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/task"
)

var (
	fetch   = rota.Define[string]("fetch")
	words   = rota.Define[struct{}]("words")
	letters = rota.Define[struct{}]("letters")
	report  = rota.Define[string]("report")
)

func main() {
	text := flag.String("text", "the quick brown fox", "what is counted")
	file := flag.String("file", "diamond.db", "file for what is under way")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	said, err := run(ctx, *file, *text)
	if err != nil {
		log.Fatal(err)
	}
	log.Print(said)
}

// diamond is the four tasks, to be submitted in one call: refs are names within it.
func diamond(text string) []rota.Submission {
	return []rota.Submission{
		fetch.New(text, rota.Submission{Ref: "text"}),
		words.New(struct{}{}, rota.Submission{Ref: "words", After: []string{"text"}}),
		letters.New(struct{}{}, rota.Submission{Ref: "letters", After: []string{"text"}}),
		report.New("of a text", rota.Submission{After: []string{"words", "letters"}}),
	}
}

// run opens a node, has the tasks done, and answers what the last one says.
func run(ctx context.Context, file, text string) (said string, err error) {
	node, err := rota.Open(ctx, rota.Config{Store: "sqlite:" + file, Name: "diamond"})
	if err != nil {
		return "", err
	}
	handle(node)
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	got, err := node.Submit(ctx, diamond(text)...)
	if err != nil {
		return "", err
	}
	v, err := node.Task(ctx, got[len(got)-1].ID, time.Minute)
	if err == nil && v.State != task.Done {
		err = fmt.Errorf("the report is %s: %s", v.State, v.Error)
	}
	if err != nil {
		return "", err
	}
	err = json.Unmarshal(v.Result, &said)
	return said, err
}

// handle says how each kind of task is done. What those left that it waited for a task finds by
// their refs.
func handle(to rota.Handlers) {
	rota.Handle(to, fetch, func(_ context.Context, t rota.Task[string]) rota.Outcome {
		if strings.TrimSpace(t.Args) == "" {
			return rota.Fail(errors.New("there is no text"))
		}
		return rota.Finish(strings.ToLower(t.Args))
	})
	rota.Handle(to, words, func(_ context.Context, t rota.Task[struct{}]) rota.Outcome {
		text, err := left[string](&t.Handout, "text")
		if err != nil {
			return rota.Fail(err)
		}
		return rota.Finish(len(strings.Fields(text)))
	})
	rota.Handle(to, letters, func(_ context.Context, t rota.Task[struct{}]) rota.Outcome {
		text, err := left[string](&t.Handout, "text")
		if err != nil {
			return rota.Fail(err)
		}
		return rota.Finish(len(strings.Join(strings.Fields(text), "")))
	})
	rota.Handle(to, report, func(_ context.Context, t rota.Task[string]) rota.Outcome {
		w, bad := left[int](&t.Handout, "words")
		l, worse := left[int](&t.Handout, "letters")
		if err := cmp.Or(bad, worse); err != nil {
			return rota.Fail(err)
		}
		return rota.Finish(fmt.Sprintf("%s: %d words, %d letters", t.Args, w, l))
	})
}

// left is the result of a task that this one has waited for.
func left[A any](t *task.Handout, ref string) (result A, err error) {
	err = json.Unmarshal(t.Prior(ref).Result, &result)
	return result, err
}
