package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestAHooksSecretsShowThemselvesToStoresOnly(t *testing.T) {
	const word = "hunter2"
	h := Hook{
		Name: "shop", Scheme: "plain", Header: "X-Signature", Prefix: "sha256=", ID: "/id",
		Tolerance: time.Minute, Headers: []string{"X-Topic"}, Queue: "orders", Stage: "new",
		Priority: time.Second, GroupKey: "/who", Meta: map[string]string{"from": "shop"},
		Secrets: []Secret{word + "1", word + "2"},
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "h", h, "p", &h, "s", h.Secrets)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "h", h, "p", &h, "s", h.Secrets)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		fmt.Fprintf(&log, verb+verb+verb, h, &h, h.Secrets)
	}
	for _, v := range []any{h, &h, h.Secrets} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		log.Write(b)
	}
	if strings.Contains(log.String(), word) ||
		strings.Contains(log.String(), fmt.Sprintf("%x", word)) {
		t.Errorf("a secret stands in %s", &log)
	}
	shown, secret, err := h.Columns()
	if err != nil || bytes.Contains(shown, []byte(word)) {
		t.Fatalf("columns: %s, %v", shown, err)
	}
	again := Hook{Name: "shop"}
	if err := again.SetColumns(shown, secret); err != nil || !reflect.DeepEqual(again, h) {
		t.Errorf("read again: %+v, %v", again, err)
	}
	err = again.SetColumns(shown, []byte(`{"`+word+`": 1`))
	if err == nil || strings.Contains(err.Error(), word) {
		t.Errorf("damaged secrets: %v", err)
	}
}
