// Crawl reads a site from its first page on: each page is a task, and the links on it are its
// children. A page's address is the key of its task, so each page is read once, however many link
// to it. README.md tells how to try it, and what holds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os/signal"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// Page is what its task carries.
type Page struct{ URL string }

var (
	read  = rota.Define[Page]("pages")
	count = rota.Type[Page]{Queue: "pages", Stage: "count"}
)

func main() {
	file := flag.String("file", "crawl.db", "file for what is under way")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("which page to begin with? crawl http://localhost:8000/")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	text, err := run(ctx, *file, flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	log.Print(text, " pages")
}

// run reads a site, and answers how many pages it has.
func run(ctx context.Context, file, first string) (result string, err error) {
	node, err := rota.Open(ctx, rota.Config{Store: "sqlite:" + file, Name: "crawl"})
	if err != nil {
		return "", err
	}
	handle(node, http.DefaultClient)
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	got, err := node.Submit(ctx, page(first))
	if err != nil {
		return "", err
	}
	for {
		v, err := node.Task(ctx, got[0].ID, time.Minute)
		if err != nil {
			return "", err
		}
		if v.State.Final() {
			return string(v.Result), nil
		}
	}
}

// page is the task that reads a page, once.
func page(at string) rota.Submission {
	return read.New(Page{at}, rota.Submission{Key: at, MaxAttempts: 3})
}

var link = regexp.MustCompile(`href="([^"]+)"`)

// handle says what becomes of a page: it is read, those that it links to are read, and when they
// are, it is known how many pages were found from here on.
func handle(to rota.Handlers, web *http.Client) {
	rota.Handle(to, read, func(ctx context.Context, t rota.Task[Page]) rota.Outcome {
		text, err := get(ctx, web, t.Args.URL)
		if err != nil {
			return rota.Retry(err)
		}
		var links []rota.Submission
		for _, at := range linksOf(t.Args.URL, text) {
			links = append(links, page(at))
		}
		return count.NextOn(task.Await{Children: task.AllChildren}, t.Args).Spawning(links...)
	})
	rota.Handle(to, count, func(ctx context.Context, t rota.Task[Page]) rota.Outcome {
		pages := 1
		for v, err := range worker.ChildrenOf(ctx, task.Done) {
			n, bad := strconv.Atoi(string(v.Result))
			if err = errors.Join(err, bad); err != nil {
				return rota.Retry(err)
			}
			pages += n
		}
		return rota.Finish(pages)
	})
}

func get(ctx context.Context, web *http.Client, at string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return "", err
	}
	response, err := web.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("read %s: %s", at, response.Status)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return string(text), err
}

// linksOf are the pages of the same site that a page links to, without what stands behind #.
func linksOf(at, text string) (links []string) {
	from, err := url.Parse(at)
	if err != nil {
		return nil
	}
	for _, m := range link.FindAllStringSubmatch(text, task.MaxSubmissions) {
		to, err := from.Parse(m[1])
		if err != nil || to.Host != from.Host {
			continue
		}
		to.Fragment = ""
		links = append(links, to.String())
	}
	return links
}
