package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/a2a-sidecar/a2a-sidecar/config"
)

// maxConfig bounds a configuration that comes on standard input.
const maxConfig = 4 << 20

func newCheckCmd(e *env) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "check",
		Short:   "Find every fault in a configuration",
		GroupID: groupConfig,
		Long: `check reads a configuration as serve does, the file and the SIDECAR_*
variables, and prints everything wrong with it: where, the key, its value, and
what to do about it. It exits with 1 if there is anything.

Without --config, and without SIDECAR_CONFIG, only the variables are checked.`,
		Example: "  sidecar check --config sidecar.yml\n  sidecar check --config - < sidecar.yml\n  sidecar check --config sidecar.yml -o json",
		Args:    takes(),
		RunE:    func(*cobra.Command, []string) error { return check(e, cmp.Or(file, e.getenv("SIDECAR_CONFIG"))) },
	}
	cmd.Flags().StringVar(&file, "config", "", "file to check, - for standard input (env SIDECAR_CONFIG)")
	return cmd
}

// checked is what check prints as JSON.
type checked struct {
	File   string        `json:"file"`
	OK     bool          `json:"ok"`
	Faults config.Faults `json:"faults"`
}

func check(e *env, file string) error {
	cfg, err := readConfig(e, file)
	faults, faulty := errors.AsType[config.Faults](err)
	if err != nil && !faulty {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	name := cmp.Or(file, "the defaults and the environment")
	if file == "-" {
		name = "standard input"
	}
	if e.output == outputJSON {
		if faults == nil {
			faults = config.Faults{}
		}
		err = e.printJSON(checked{File: file, OK: !faulty, Faults: faults})
	} else {
		err = e.print(describeCheck(name, cfg, faults, e.style().ascii))
	}
	if err != nil || !faulty {
		return err
	}
	return fmt.Errorf("checking %s: %s found", name, plural(len(faults), "fault"))
}

func describeCheck(name string, cfg config.Config, faults config.Faults, ascii bool) string {
	if len(faults) == 0 {
		return fmt.Sprintf("%s: no faults (%s, store %s)\n",
			clean(name, ascii), plural(len(cfg.Agents), "agent"), clean(cfg.Store.String(), ascii))
	}
	var b strings.Builder
	for _, f := range faults {
		b.WriteString(clean(f.Error(), ascii) + "\n")
	}
	return b.String()
}

func readConfig(e *env, file string) (config.Config, error) {
	if file != "-" {
		return loadConfig(file, e.lookupEnv, nil)
	}
	text, err := io.ReadAll(io.LimitReader(e.stdin, maxConfig+1))
	if err != nil {
		return config.Config{}, err
	}
	if len(text) > maxConfig {
		return config.Config{}, fmt.Errorf("standard input holds more than %d bytes", maxConfig)
	}
	return config.Load(config.Source{Name: "stdin", YAML: text, LookupEnv: e.lookupEnv})
}

func newSchemaCmd(e *env) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of the configuration",
		GroupID: groupConfig,
		Long: `schema prints the JSON Schema of the configuration file, for editors. It is
JSON whatever --output says.`,
		Example: "  sidecar schema > sidecar.schema.json",
		Args:    takes(),
		RunE: func(*cobra.Command, []string) error {
			schema, err := config.Schema()
			if err != nil {
				return fmt.Errorf("making the schema: %w", err)
			}
			return e.print(strings.TrimRight(string(schema), "\n") + "\n")
		},
	}
}
