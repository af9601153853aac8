package wire

import (
	"strconv"

	"github.com/rotahq/rota/task"
)

// AppendNotice appends a final notice. encoding/json reads it; it would not write the context and
// the result byte for byte.
func AppendNotice(b []byte, n *task.FinalNotice) []byte {
	b = append(b, `{"task":`...)
	b = appendID(b, n.Task)
	b = append(b, `,"queue":`...)
	b = appendString(b, n.Queue)
	b = append(b, `,"stage":`...)
	b = appendString(b, n.Stage)
	b = append(b, `,"state":`...)
	b = appendString(b, string(n.State))
	b = append(b, `,"outcome":`...)
	b = appendString(b, n.Outcome.String())
	b = append(b, `,"attempt":`...)
	b = strconv.AppendInt(b, int64(n.Attempt), 10)
	b = appendText(b, `,"worker":`, n.Worker)
	b = appendText(b, `,"error":`, n.Error)
	b = appendStringMap(b, `,"meta":`, n.Meta)
	b = appendRaw(b, `,"context":`, n.Context)
	b = appendRaw(b, `,"result":`, n.Result)
	if n.Short {
		b = append(b, `,"short":true`...)
	}
	return append(b, '}')
}
