package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCardKeys(t *testing.T) {
	t.Parallel()
	const dir = "../../internal/cardsig/testdata/keys/"
	got, err := cardKeys([]string{dir + "es256.pem", dir + "all.jwks.json"})
	if err != nil || len(got) != 6 {
		t.Errorf("cardKeys = %d keys, %v, want 6", len(got), err)
	}
	if got, err := cardKeys(nil); err != nil || len(got) != 0 {
		t.Errorf("cardKeys of no file = %d keys, %v, want none", len(got), err)
	}
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		empty:          "reading keys (cards.verify): " + empty + ": no public key in it",
		dir + "none":   "reading keys (cards.verify): open ",
		"../../go.mod": "reading keys (cards.verify): ../../go.mod: no public key in it",
	} {
		if _, err := cardKeys([]string{dir + "es256.pem", file}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("cardKeys(%s) = %v, want %s", file, err, want)
		}
	}
}
