package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"

	"github.com/a2a-sidecar/a2a-sidecar/config"
)

// configFlag is a flag of serve that sets one key of the configuration.
type configFlag struct{ name, key, usage string }

// configFlags are the flags that suffice for a first run without a file.
var configFlags = []configFlag{
	{"store", "store", "where the record is: sqlite:PATH, sqlite::memory:, redis://HOST:PORT/DB"},
	{"outbound", "listen.outbound", "address that the local agent calls"},
	{"inbound", "listen.inbound", "address at which the local agent is called"},
	{"admin", "listen.admin", "address of the admin API"},
	{"local-url", "local.url", "base URL of the agent beside this sidecar"},
	{"local-name", "local.name", "name of the agent beside this sidecar"},
}

func newServeCmd(e *env) *cobra.Command {
	var file, addrFile string
	var agents []string
	values := make([]string, len(configFlags))
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Run the sidecar",
		GroupID: groupRun,
		Long: `serve runs the sidecar until it is told to stop (Ctrl-C, SIGTERM), then lets
calls that are under way go on for a while.

The local agent calls http://OUTBOUND/agents/NAME/ instead of the agent itself.
The flags suffice for a first run; --config names a file for everything else
(sidecar check finds its faults, sidecar schema describes it). A flag counts
more than a SIDECAR_* variable, and that more than the file.`,
		Example: `  sidecar serve --agent worker=http://worker:8080,isolate
  sidecar serve --config sidecar.yml --store redis://redis:6379/0
  sidecar serve --agent a=http://a:8080 --agent b=http://b:8080,isolate,kind=worker`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var flags []config.Flag
			for i, f := range configFlags {
				if cmd.Flags().Changed(f.name) {
					flags = append(flags, config.Flag{Name: "--" + f.name, Key: f.key, Value: values[i]})
				}
			}
			for _, a := range agents {
				flags = append(flags, config.Flag{Name: "--agent", Key: "agents", Value: a})
			}
			return serve(cmd.Context(), e, cmp.Or(file, e.getenv("SIDECAR_CONFIG")), addrFile, flags)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file (env SIDECAR_CONFIG)")
	cmd.Flags().StringVar(&addrFile, "addr-file", "", "file that gets the bound addresses as JSON, for ports given as 0")
	cmd.Flags().StringArrayVar(&agents, "agent", nil, "an agent: NAME=URL[,isolate][,kind=worker]… (may be repeated)")
	for i, f := range configFlags {
		cmd.Flags().StringVar(&values[i], f.name, "", f.usage)
	}
	return cmd
}

// loadConfig reads the file, the environment and the flags.
func loadConfig(path string, lookup func(string) (string, bool), flags []config.Flag) (config.Config, error) {
	src := config.Source{LookupEnv: lookup, Flags: flags}
	if path != "" {
		b, err := os.ReadFile(path)
		if err != nil {
			return config.Config{}, err
		}
		src.Name, src.YAML = path, b
	}
	return config.Load(src)
}

// heapGrowth is how far, in percent, the heap grows between collections, unless
// GOGC says otherwise. Little of it lives from call to call, so it stays small
// all the same, and the collector takes a third of the time of Go's default 100.
const heapGrowth = 400

// ofFlags reports whether all that is wrong with a configuration is wrong with
// the command line.
func ofFlags(err error) bool {
	faults, ok := errors.AsType[config.Faults](err)
	return ok && !slices.ContainsFunc(faults, func(f config.Fault) bool { return !strings.HasPrefix(f.File, "--") })
}

// serve runs a sidecar until ctx ends.
func serve(ctx context.Context, e *env, file, addrFile string, flags []config.Flag) error {
	cfg, err := loadConfig(file, e.lookupEnv, flags)
	if err != nil {
		err = fmt.Errorf("reading the configuration: %w", err)
		if ofFlags(err) {
			return &failure{error: err, code: exitUsage, hint: "`sidecar serve --help` says how"}
		}
		return err
	}
	if e.getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
	log := newLogger(e.stderr, cfg.Log)
	logLibraries(log)
	a, err := newApp(ctx, appOptions{Config: cfg, Log: log, Getenv: e.getenv})
	if err != nil {
		return err
	}
	if addrFile != "" {
		if err := writeAddrs(addrFile, a); err != nil {
			return errors.Join(err, a.release(context.WithoutCancel(ctx)))
		}
	}
	names := make([]string, 0, len(cfg.Agents))
	for _, agent := range cfg.Agents {
		names = append(names, agent.Name)
	}
	at := a.addresses()
	log.Info("serving", "outbound", a.Outbound(), "admin", a.Admin(), "callbacks", at.Callbacks, "grpc", at.GRPC,
		"store", cfg.Store, "agents", names, "version", buildVersion().Version)
	if len(names) == 0 {
		log.Warn("no agent is configured; name one with --agent NAME=URL or in the file")
	}
	err = a.Run(ctx)
	log.Info("stopped")
	return err
}

// logLibraries sends what libraries would print themselves to log.
func logLibraries(log *slog.Logger) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("telemetry failed", "error", err) }))
	goredis.SetLogger(redisLogger{log})
}

// redisLogger is what the Redis client prints to. The store tells what failed
// in its own words; this is for whoever looks into the client.
type redisLogger struct{ log *slog.Logger }

func (l redisLogger) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, v...))
}

func newLogger(w io.Writer, c config.Log) *slog.Logger {
	opts := &slog.HandlerOptions{Level: c.Level}
	if c.Format == config.LogFormatText {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}

// writeAddrs tells whoever started the sidecar where it listens. The file
// appears whole: a reader that waits for it never finds half of it.
func writeAddrs(path string, a *app) error {
	b, err := json.Marshal(a.addresses())
	if err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the addresses: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("writing the addresses: %w", err)
	}
	return nil
}
