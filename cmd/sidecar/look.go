package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/a2a-sidecar/a2a-sidecar/admin"
	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/config"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

const (
	defaultAdmin = "http://127.0.0.1:8402"
	// askTime is how long one answer of the admin API may take.
	askTime = 30 * time.Second
	// completeTime is how long the shell waits for names.
	completeTime = time.Second
)

// viewer is what the commands that look need: an admin API, or the same view
// of a store.
type viewer interface {
	Trees(context.Context, adminapi.TreesQuery) (adminapi.TreePage, error)
	TreePart(ctx context.Context, root string, q adminapi.SessionsQuery) (adminapi.TreeView, error)
	Events(ctx context.Context, root string, q adminapi.EventsQuery) (adminapi.EventPage, error)
	Session(ctx context.Context, id string) (lineage.Session, error)
}

// source is where a command looks, as its flags say.
type source struct {
	env                     *env
	admin, tokenFile, store string
}

// lookAt gives cmd the flags that say where it looks.
func lookAt(e *env, cmd *cobra.Command) *source {
	s := asks(e, cmd)
	cmd.GroupID = groupLook
	cmd.Flags().StringVar(&s.store, "store", "", "look into a store instead: sqlite:PATH, read-only, or redis://HOST:PORT")
	return s
}

// asks gives cmd the flags that say which admin API it asks.
func asks(e *env, cmd *cobra.Command) *source {
	s := &source{env: e}
	cmd.Flags().StringVar(&s.admin, "admin", "", "admin API to ask (env SIDECAR_ADMIN; default "+defaultAdmin+")")
	cmd.Flags().StringVar(&s.tokenFile, "token-file", "", "file with the admin API's token (env SIDECAR_TOKEN_FILE)")
	return s
}

// open returns the viewer and what to do when done with it.
func (s *source) open(ctx context.Context) (viewer, func(), error) {
	if s.store != "" && s.admin != "" {
		return nil, nil, usage("reading the command line: --admin and --store do not go together")
	}
	if s.store != "" {
		return s.openStore(ctx)
	}
	client, err := s.client()
	return client, func() {}, err
}

// client returns a client of the admin API.
func (s *source) client() (*adminapi.Client, error) {
	token, err := readSecret(config.Secret{File: cmp.Or(s.tokenFile, s.env.getenv("SIDECAR_TOKEN_FILE"))})
	if err != nil {
		return nil, err
	}
	address := cmp.Or(s.admin, s.env.getenv("SIDECAR_ADMIN"), defaultAdmin)
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	// No redirects: an admin API sends none, and a token is for it alone.
	client, err := adminapi.New(address, string(token), &http.Client{
		Timeout:       askTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	if err != nil {
		return nil, &failure{error: err, code: exitUsage}
	}
	return client, nil
}

func (s *source) openStore(ctx context.Context) (viewer, func(), error) {
	url := config.NewStoreURL(s.store)
	switch url.Scheme() {
	case "sqlite":
		if s.store == "sqlite::memory:" {
			return nil, nil, &failure{
				error: fmt.Errorf("opening the store %s: it is in the memory of another process", url), code: exitUsage,
				hint: "--admin URL asks that process",
			}
		}
	case "redis", "rediss", "redis+cluster", "redis+sentinel":
	default:
		return nil, nil, &failure{
			error: fmt.Errorf("opening the store %s: no such kind of store", url), code: exitUsage,
			hint: "it is sqlite:PATH, redis://HOST:PORT, rediss://…, redis+cluster://HOST:PORT,… or redis+sentinel://HOST:PORT,…/MASTER",
		}
	}
	log := slog.New(slog.NewTextHandler(s.env.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	logLibraries(log)
	store, err := openStore(ctx, url, storeOptions{log: log, readOnly: true})
	if err != nil {
		return nil, nil, &failure{error: err, code: exitFailed, hint: "is it there, and may it be read from here?"}
	}
	done := func() {
		if err := store.Close(); err != nil {
			log.Warn("closing the store failed", "error", err)
		}
	}
	return admin.NewView(store, nil), done, nil
}

// newest stands for the newest tree where a ROOT is wanted; so does a dash.
const newest = "latest"

// findRoot returns the root context id that a user means by name: that of the
// newest tree, the one that is called so, or the only one that begins so.
func findRoot(ctx context.Context, v viewer, name string) (string, error) {
	if name == newest || name == "-" {
		page, err := v.Trees(ctx, adminapi.TreesQuery{Limit: 1})
		if err != nil {
			return "", fmt.Errorf("finding the newest tree: %w", err)
		}
		if len(page.Trees) == 0 {
			return "", &failure{
				error: fmt.Errorf("finding the newest tree: there is none yet"), code: exitNotFound,
				hint: "one grows with the first call through the sidecar",
			}
		}
		return page.Trees[0].Root, nil
	}
	// A whole id is by far the most common name, and to list all trees may take long.
	if name != "" {
		_, err := v.TreePart(ctx, name, adminapi.SessionsQuery{Limit: 1})
		if err == nil {
			return name, nil
		}
		if exitCode(err) != exitNotFound {
			return "", fmt.Errorf("finding tree %q: %w", name, err)
		}
	}
	var begin []string
	q := adminapi.TreesQuery{Text: name, Limit: adminapi.MaxPage}
	for {
		page, err := v.Trees(ctx, q)
		if err != nil {
			return "", fmt.Errorf("finding tree %q: %w", name, err)
		}
		for _, t := range page.Trees {
			if strings.HasPrefix(t.Root, name) {
				begin = append(begin, t.Root)
			}
		}
		if page.Next == "" {
			break
		}
		q.Cursor = page.Next
	}
	switch len(begin) {
	case 0:
		return "", &failure{
			error: fmt.Errorf("finding tree %q: no root context id is, or begins with, that", name), code: exitNotFound,
			hint: "`sidecar trees` lists them",
		}
	case 1:
		return begin[0], nil
	default:
		return "", &failure{
			error: fmt.Errorf("finding tree %q: %d root context ids begin with that", name, len(begin)), code: exitUsage,
			hint: "such as " + strings.Join(begin[:min(len(begin), 3)], ", "),
		}
	}
}

// withTree opens the source and runs do on the tree that name means.
func (s *source) withTree(ctx context.Context, name string, do func(v viewer, root string) error) error {
	v, done, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	root, err := findRoot(ctx, v, name)
	if err != nil {
		return err
	}
	return do(v, root)
}

// completeRoot offers the newest trees to the shell.
func (s *source) completeRoot(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
	defer cancel()
	v, done, err := s.open(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer done()
	page, err := v.Trees(ctx, adminapi.TreesQuery{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := []cobra.Completion{cobra.CompletionWithDesc(newest, "the newest tree")}
	for _, t := range page.Trees {
		// Names that would need quoting differ from shell to shell.
		if clean(t.Root, true) == t.Root && !strings.ContainsAny(t.Root, " \\'\"`$&|;<>()*?[]#~!{}") {
			names = append(names, cobra.CompletionWithDesc(t.Root, plural(t.Sessions, "session")))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
