package main

import (
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/config"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func load(o object) (config.Config, error) {
	b, err := json.Marshal(o)
	if err != nil {
		return config.Config{}, err
	}
	return config.Load(config.Source{Name: "chaos.yml", YAML: b})
}

// length is how long a job takes at most, once it runs.
func length(j job) time.Duration {
	longest := time.Duration(0)
	for _, next := range j.Next {
		longest = max(longest, length(next))
	}
	return j.Work + longest
}
