package hook

import (
	"encoding/json"
	"strconv"
	"strings"
)

// isPointer tells whether a text is a pointer rather than the name of a header.
func isPointer(text string) bool { return strings.HasPrefix(text, "/") }

// validPointer tells whether a text is a JSON pointer (RFC 6901) to something inside a value.
func validPointer(text string) bool {
	if !isPointer(text) {
		return false
	}
	for i, c := range []byte(text) {
		if c == '~' && (i+1 == len(text) || text[i+1] != '0' && text[i+1] != '1') {
			return false
		}
	}
	return true
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// at is what stands in a JSON value at a pointer, nil when nothing does. Of a name that comes twice
// in an object the last counts. Where a pointer goes on below a text, the text is read as JSON:
// senders put JSON into a field of a form.
func at(value json.RawMessage, pointer string) json.RawMessage {
	for token := range strings.SplitSeq(pointer[1:], "/") {
		token = unescape.Replace(token)
		var object map[string]json.RawMessage
		var array []json.RawMessage
		if text, ok := textOf(value); ok && value[0] == '"' {
			value = json.RawMessage(text)
		}
		switch {
		case json.Unmarshal(value, &object) == nil && object != nil:
			value = object[token]
		case json.Unmarshal(value, &array) == nil:
			i, err := strconv.ParseUint(token, 10, 31)
			if err != nil || int(i) >= len(array) || token != strconv.FormatUint(i, 10) {
				return nil
			}
			value = array[i]
		default:
			return nil
		}
	}
	return value
}

// textOf is a JSON string, number or truth value as a text; false for anything else.
func textOf(value json.RawMessage) (string, bool) {
	var text string
	switch {
	case len(value) == 0, strings.ContainsRune("{[n", rune(value[0])):
		return "", false
	case value[0] == '"':
		return text, json.Unmarshal(value, &text) == nil && text != ""
	}
	return string(value), true
}
