package wire

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

var (
	jobsFields = []string{"jobs"}
	jobFields  = []string{"job", "load", "spec"}
)

// AppendJobs appends a list of jobs as [ParseJobs] reads it. Specs go out as they are: each must be
// one JSON value.
func AppendJobs(b []byte, jobs []task.Job) []byte {
	b = append(b, `{"jobs":[`...)
	for i := range jobs {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendJob(b, &jobs[i])
	}
	return append(b, "]}"...)
}

// AppendJob appends one of them.
func AppendJob(b []byte, job *task.Job) []byte {
	b = append(b, `{"job":`...)
	b = appendString(b, job.Name)
	b = append(b, `,"load":`...)
	b = appendFloat(b, job.Load.Float())
	b = appendRaw(b, `,"spec":`, job.Spec)
	return append(b, '}')
}

// ParseJobs reads {"jobs":[{"job","load","spec"}]} with at most limit jobs. A load that is left out
// is one unit. Specs are parts of b.
func ParseJobs(b []byte, limit int) ([]task.Job, error) {
	var d decoder
	d.begin(b)
	var jobs []task.Job
	o := d.object(jobsFields)
	for o.next() {
		jobs = d.jobs(limit)
	}
	o.need("jobs")
	if err := d.end("body"); err != nil {
		return nil, err
	}
	return jobs, nil
}

// ParseJobList reads the list alone, which stands at location.
func ParseJobList(location string, b []byte, limit int) ([]task.Job, error) {
	var d decoder
	d.begin(b)
	jobs := d.jobs(limit)
	if err := d.end(location); err != nil {
		return nil, err
	}
	return jobs, nil
}

func (d *decoder) jobs(limit int) []task.Job {
	jobs := []task.Job{}
	for a := d.array(limit); a.next(); {
		jobs = add(jobs, &a, d.job())
	}
	return jobs
}

func (d *decoder) job() task.Job {
	job := task.Job{Load: task.Unit}
	o := d.object(jobFields)
	for o.next() {
		switch o.name {
		case "job":
			job.Name = d.str("")
		case "load":
			job.Load = d.units()
		case "spec":
			job.Spec = d.opaque()
		}
	}
	o.need("job")
	return job
}

func (d *decoder) units() task.Units {
	d.peek()
	at := d.i
	u, err := task.ParseUnits(d.float())
	if err != nil {
		d.failValue(at, "%v", err)
	}
	return u
}

// ParseJobText reads a list of jobs as people and programs write it into files: {"jobs":[…]}, the
// list alone, or lines.
func ParseJobText(b []byte, limit int) ([]task.Job, error) {
	var first byte
	if i := skipSpace(b, 0); i < len(b) {
		first = b[i]
	}
	switch first {
	case '{':
		return ParseJobs(b, limit)
	case '[':
		return ParseJobList("body", b, limit)
	}
	return ParseJobLines(b, limit)
}

// ParseJobLines reads a job a line: its name, and if need be its load, and behind that its spec in
// JSON, with space between. Empty lines and those that begin with # are skipped. An error names the
// lines that are wrong, the first limits.MaxFaults of them. Specs are parts of b.
func ParseJobLines(b []byte, limit int) ([]task.Job, error) {
	jobs := []task.Job{}
	first := map[string]int{} // line by name
	wrong := &Error{Value: true}
	for n := 1; len(b) > 0 && len(wrong.Fields) < limits.MaxFaults; n++ {
		var line []byte
		line, b, _ = bytes.Cut(b, []byte("\n"))
		line = bytes.Trim(line, blank)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		job, fault := jobLine(line)
		if before := first[job.Name]; fault == "" && before > 0 {
			fault = fmt.Sprintf("%q is the job of line %d already", job.Name, before)
		}
		if fault == "" && len(jobs) == limit {
			wrong.Fields = append(wrong.Fields, task.FieldError{
				Location: lineName(n), Message: fmt.Sprintf("more than %d jobs", limit),
			})
			break
		}
		if fault != "" {
			wrong.Fields = append(wrong.Fields, task.FieldError{
				Location: lineName(n), Message: fault,
			})
			continue
		}
		first[job.Name] = n
		jobs = append(jobs, job)
	}
	if len(wrong.Fields) > 0 {
		return nil, wrong
	}
	return jobs, nil
}

// blank is the space inside a line.
const blank = " \t\r"

func lineName(n int) string { return "line " + strconv.Itoa(n) }

// jobLine reads one line without space around it.
func jobLine(line []byte) (job task.Job, fault string) {
	job.Load = task.Unit
	name, rest := word(line)
	if job.Name = string(name); !limits.ValidName(job.Name) {
		return job, fmt.Sprintf("%.40q %s", job.Name, limits.NameRule)
	}
	if len(rest) == 0 {
		return job, ""
	}
	load, rest := word(rest)
	end, fault := scanNumber(load, 0)
	f, err := strconv.ParseFloat(string(load), 64)
	if end < len(load) || fault != "" || err != nil {
		return job, fmt.Sprintf("load %.40q is no number", load)
	}
	if job.Load, err = task.ParseUnits(f); err != nil {
		return job, "load " + err.Error()
	}
	if len(rest) == 0 {
		return job, ""
	}
	switch end, fault := scanValue(rest, 0); {
	case !utf8.Valid(rest):
		return job, "the spec is not valid UTF-8"
	case fault != "":
		return job, fmt.Sprintf("the spec is no JSON: at byte %d: %s", end, fault)
	case end < len(rest):
		return job, fmt.Sprintf("the spec is one JSON value; expected nothing behind byte %d", end)
	case len(rest) > limits.MaxSpec:
		return job, fmt.Sprintf("the spec is larger than %d bytes", limits.MaxSpec)
	case string(rest) != "null":
		job.Spec = rest[:len(rest):len(rest)]
	}
	return job, ""
}

// word cuts the first word off.
func word(line []byte) (first, rest []byte) {
	i := bytes.IndexAny(line, blank)
	if i < 0 {
		return line, nil
	}
	return line[:i], bytes.TrimLeft(line[i:], blank)
}
