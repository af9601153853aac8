package rota

import (
	"strings"
	"testing"
)

func TestErrorsAboutAStoreShowNoPassword(t *testing.T) {
	for _, store := range []string{
		"host=db user=rota password=GEHEIM dbname=rota", "host=db password=GEHEIM:GEHEIM",
		"password=GEHEIM", "mysql://u:GEHEIM@h/d", "sqlite",
		"postgres://u:GEHEIM/GEHEIM@h/d", "postgres://u:GEHEIM%zz@h/d",
		"postgres://u:p@h/d?password=GEHEIM%zz", "postgres://u:p@h:GEHEIM/d",
		"postgres://u:GEHEIM@h/d?sslmode=nonsense",
		"postgres://u:p@h/d?password=GEHEIM&sslmode=nonsense",
		"postgres://u:GEHEIM@h/d?password=GEHEIM%20GEHEIM&connect_timeout=x",
		"postgres:host=db password=GEHEIM", "postgres:u:GEHEIM@h/d",
	} {
		_, err := Open(t.Context(), Config{Store: store})
		if err == nil || strings.Contains(err.Error(), "GEHEIM") {
			t.Errorf("%s: %v", store, err)
		}
	}
}
