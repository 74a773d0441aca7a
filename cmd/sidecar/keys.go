package main

import (
	"fmt"
	"os"

	"github.com/a2a-sidecar/a2a-sidecar/internal/cardsig"
)

// cardKeys reads the public keys that an agent's cards must be signed with.
func cardKeys(files []string) (cardsig.Keys, error) {
	var all cardsig.Keys
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading keys (cards.verify): %w", err)
		}
		keys, err := cardsig.ParseKeys(data)
		if err != nil {
			return nil, fmt.Errorf("reading keys (cards.verify): %s: %w", file, err)
		}
		all = append(all, keys...)
	}
	return all, nil
}
