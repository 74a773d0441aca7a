package main

import (
	"context"
	"os"
	"testing"
	"time"
)

func TestX(t *testing.T) {
	e := &env{lookupEnv: func(string) (string, bool) { return "", false }, stdin: nil, stdout: os.Stdout, stderr: os.Stderr, now: time.Now, output: outputText}
	start := time.Now()
	err := demo(context.Background(), e, demoOptions{Once: true, Store: demoStore, Calls: 11, Delay: demoDelay})
	t.Log(time.Since(start), err)
}
