package telemetry_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/a2a-sidecar/a2a-sidecar/internal/telemetry"
)

func start(t *testing.T, env map[string]string) *telemetry.Telemetry {
	t.Helper()
	for name, value := range env {
		t.Setenv(name, value) // the exporters read the process's own
	}
	tel, err := telemetry.Start(t.Context(), telemetry.Options{
		Service: "a2a-sidecar", Version: "1.2.3", Getenv: func(name string) string { return env[name] },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tel.Shutdown(context.Background()); err != nil && env["OTEL_EXPORTER_OTLP_ENDPOINT"] == "" {
			t.Error(err)
		}
	})
	return tel
}

// records reports whether spans are made to be exported.
func records(t *testing.T, tel *telemetry.Telemetry) bool {
	t.Helper()
	_, span := tel.Tracer.Tracer("test").Start(t.Context(), "span", trace.WithNewRoot())
	defer span.End()
	return span.SpanContext().IsValid()
}

func TestTracesOnlyWhereAskedFor(t *testing.T) {
	const endpoint = "http://127.0.0.1:1"
	for name, tt := range map[string]struct {
		env  map[string]string
		want bool
	}{
		"nothing set":   {nil, false},
		"endpoint":      {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_METRICS_EXPORTER": "none"}, true},
		"its own":       {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": endpoint}, true},
		"exporter":      {map[string]string{"OTEL_TRACES_EXPORTER": "console"}, true},
		"none":          {map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": endpoint}, false},
		"switched off":  {map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": endpoint}, false},
		"metrics alone": {map[string]string{"OTEL_METRICS_EXPORTER": "console"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := records(t, start(t, tt.env)); got != tt.want {
				t.Errorf("Start(%v) records spans: %v, want %v", tt.env, got, tt.want)
			}
		})
	}
}

func TestMetricsPage(t *testing.T) {
	tel := start(t, nil)
	counter, err := tel.Meter.Meter("test").Int64Counter("a2a_sidecar_tested")
	if err != nil {
		t.Fatal(err)
	}
	counter.Add(t.Context(), 3)
	page := httptest.NewRecorder()
	tel.Metrics.ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{"a2a_sidecar_tested_total 3", "go_goroutines", `service_version="1.2.3"`} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("metrics page lacks %q", want)
		}
	}
}

func TestUnknownExporterFails(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "carrier-pigeon")
	_, err := telemetry.Start(t.Context(), telemetry.Options{Getenv: func(name string) string {
		if name == "OTEL_TRACES_EXPORTER" {
			return "carrier-pigeon"
		}
		return ""
	}})
	if err == nil || !strings.Contains(err.Error(), "carrier-pigeon") {
		t.Errorf("Start with an unknown exporter = %v, want an error that names it", err)
	}
}
