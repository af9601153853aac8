// Package scenarios plays against the real binary what five documents describe: rota was asked for
// by people who ran, or read of, a Supervisor with its Workers and Spiders, Asyncflow, a load
// balancer over isolates, the job scheduler of SIA-TASK, and Keeper. docs/coming-from.md tells
// them where they find everything again; each row of its tables names a scenario here, tests only.
//
//	make scenarios                    # all of them, three at a time; less than two minutes
//	make scenarios RUN=/drain         # those of that name
//
// # Stories
//
// testdata has a story for each document, to be read beside it. A scenario begins with a line
// "## NAME: what the document says", and tells in comments where it says that and what rota does
// otherwise. Then come commands, as testscript has them (a name in single quotes is one word,
// $NAME stands for a value, ! in front means that it must fail), and behind a command, in lines
// that begin with ">", what is to be seen of it:
//
//	rota queue ls
//	> QUEUE  READY
//	> mail   3
//
// means: the table has this one row, and these values in these two columns. Of JSON, the items are
// the rows and the columns are paths in them. A line is one of
//
//	> COLUMN  COLUMN …         the columns that matter; two spaces or more stand between them
//	> VALUE   VALUE …          a row; they come in this order and there are no others
//	> …                        behind rows: there may be others, in any order
//	> PATH = VALUE             a field of a JSON object (a.b, a.0, a.name=x.b, a.#), or of lines "key value"
//	> @ PATH                   the rows are at that path, not in items
//	> = TEXT                   all that was printed
//	> ~ REGEXP   > !~ REGEXP   it matches, or does not
//
// and a value is a text, *, /regexp/, or a number behind <, <=, > or >=. Before a command may stand
//
//	until    again and again until it is so, 40 s at most
//	for 2s   it is so now, and for 2 s it stays so
//
// # Commands
//
//	database              nodes of this scenario share a new database of PostgreSQL
//	serve NAME [FLAG…]    a node; $NAME is its URL; the first one is asked from here on. Again: at the same address, with the same flags
//	ask NAME              another node is asked from here on
//	work NAME [FLAG…] -- COMMAND   a worker that knows all nodes
//	begin NAME COMMAND…   any other command that goes on beside the story; what it prints is in the file NAME.out
//	die NAME…             kill -9
//	end NAME…             Ctrl-C, and wait for the end
//	freeze NAME, thaw NAME    SIGSTOP, SIGCONT
//	call METHOD PATH [BODY]   a call of the API; its answer is what was printed
//	rota …, exits CODE rota …    a command of the program, and how it ends
//	show FILE             a file is printed
//	jobs FROM TO          schedules job-01, job-02 … that are due once a year: keys to be looked after
//	keep NAME [PATH]      the last line printed, or a field of the JSON that was, is $NAME
//	mails NAME            a mail server; what it gets is in the file NAME
//	runners, run, …       see runners_test.go
package scenarios
