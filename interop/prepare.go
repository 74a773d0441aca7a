package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// prepare makes what the programs need, and the sidecar. A program that cannot
// be made is left out and counts as a failure; the others go on.
func (l *lab) prepare(ctx context.Context) error {
	root, err := filepath.Abs(l.root)
	if err != nil {
		return err
	}
	l.root = root
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("finding a place for what the programs need: %w", err)
	}
	cache = filepath.Join(cache, "a2a-sidecar-interop")
	l.bin, l.venvs = filepath.Join(cache, "bin"), filepath.Join(cache, "venv")
	if err := errors.Join(os.MkdirAll(l.bin, 0o755), os.MkdirAll(l.venvs, 0o755)); err != nil {
		return err
	}
	planned := map[string][]recipe{} // by tool: each has a cache of its own to mind
	var wanted []*program
	if l.sidecar == "" {
		l.sidecar = filepath.Join(l.bin, "sidecar")
		planned["go"] = []recipe{sidecarRecipe}
	}
	for i := range programs {
		p := &programs[i]
		if !l.wanted(p) {
			continue
		}
		wanted = append(wanted, p)
		for _, r := range p.recipes {
			if !slices.Contains(planned[r.tool], r) {
				planned[r.tool] = append(planned[r.tool], r)
			}
		}
	}
	var tools sync.WaitGroup
	var mu sync.Mutex // guards done
	done := map[recipe]error{}
	for _, recipes := range planned {
		tools.Go(func() {
			for _, r := range recipes {
				err := l.carryOut(ctx, r)
				mu.Lock()
				done[r] = err
				mu.Unlock()
			}
		})
	}
	tools.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	l.ready = map[string]error{}
	for _, p := range wanted {
		for _, r := range p.recipes {
			l.ready[p.name] = errors.Join(l.ready[p.name], done[r])
		}
		if err := l.ready[p.name]; err != nil {
			l.say("%s is left out: %v", p.name, err)
		}
	}
	return done[sidecarRecipe]
}

var sidecarRecipe = recipe{tool: "go", dir: ".", what: "./cmd/sidecar", out: "sidecar"}

// wanted reports whether any run takes a program.
func (l *lab) wanted(p *program) bool {
	if l.only == nil {
		return true
	}
	for i := range programs {
		other := &programs[i]
		for _, pair := range [][2]*program{{p, other}, {other, p}} {
			for _, r := range l.runs(pair[0], pair[1]) {
				if l.only.MatchString(r.String()) {
					return true
				}
			}
		}
	}
	return false
}

// tools are the commands that recipes need besides Go.
var tools = map[string][]string{"npm": {"node", "npm"}, "pip": {"python3"}}

// carryOut carries out a recipe. What was made before is used as far as the
// tool finds it up to date.
func (l *lab) carryOut(ctx context.Context, r recipe) error {
	began := time.Now()
	dir := filepath.Join(l.root, r.dir)
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	for _, tool := range tools[r.tool] {
		if _, err := exec.LookPath(tool); err == nil {
			continue
		}
		if err := l.command(ctx, l.root, filepath.Join(l.root, "scripts", "interop.sh"), "need", tool); err != nil {
			return err
		}
	}
	var err error
	switch r.tool {
	case "go":
		args := []string{"build", "-o", filepath.Join(l.bin, r.out)}
		if r.mod != "" {
			args = append(args, "-modfile="+r.mod)
		}
		err = l.command(ctx, dir, "go", append(args, r.what)...)
	case "npm":
		err = l.npm(ctx, dir)
	case "pip":
		err = l.pip(ctx, dir, r)
	default:
		err = errors.New("no such tool: " + r.tool)
	}
	if err != nil {
		return err
	}
	l.say("made %s in %.1f s", strings.TrimSpace(r.tool+" "+strings.Join([]string{r.dir, r.what}, " ")), time.Since(began).Seconds())
	return nil
}

// npm installs what the lock file says, unless that is what is there.
func (l *lab) npm(ctx context.Context, dir string) error {
	return l.once(filepath.Join(dir, "package-lock.json"), filepath.Join(dir, "node_modules", ".interop"), func() error {
		return l.command(ctx, dir, "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
	})
}

func (l *lab) pip(ctx context.Context, dir string, r recipe) error {
	venv := filepath.Join(l.venvs, r.out)
	return l.once(filepath.Join(dir, r.what), filepath.Join(venv, ".interop"), func() error {
		if err := l.command(ctx, dir, "python3", "-m", "venv", "--clear", venv); err != nil {
			return err
		}
		return l.command(ctx, dir, filepath.Join(venv, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r", r.what)
	})
}

// once does what a file asks for, unless it was done for the same file: a copy
// of it is kept as the stamp.
func (l *lab) once(source, stamp string, do func() error) error {
	want, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	if got, err := os.ReadFile(stamp); err == nil && slices.Equal(got, want) {
		return nil
	}
	if err := do(); err != nil {
		return err
	}
	return os.WriteFile(stamp, want, 0o644)
}

// command runs a tool to its end. Its output is shown if it fails.
func (l *lab) command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s (in %s): %w\n%s", name, strings.Join(args, " "), dir, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// expand puts places into a command.
func (l *lab) expand(command []string) []string {
	args := make([]string, 0, len(command))
	for _, a := range command {
		a = strings.NewReplacer("{bin}", l.bin, "{root}", l.root).Replace(a)
		if _, rest, ok := strings.Cut(a, "{venv:"); ok {
			name, rest, _ := strings.Cut(rest, "}")
			a = filepath.Join(l.venvs, name) + rest
		}
		args = append(args, a)
	}
	return args
}
