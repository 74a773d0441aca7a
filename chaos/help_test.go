package main

import (
	"encoding/json"
	"math/rand/v2"

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
