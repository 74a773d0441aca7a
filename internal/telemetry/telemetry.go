// Package telemetry sets OpenTelemetry up from the standard OTEL_* environment
// variables, and Prometheus beside it.
//
// Traces, and metrics over OTLP, are exported only where a variable asks for
// it: a sidecar that nobody told of a collector does not go looking for one.
// The metrics page for Prometheus is always there.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Options says what this process is.
type Options struct {
	Service string // service.name where OTEL_SERVICE_NAME is not set
	Version string
	Getenv  func(string) string
}

// Telemetry is what the packages that measure and trace need.
type Telemetry struct {
	Tracer     trace.TracerProvider
	Meter      metric.MeterProvider
	Propagator propagation.TextMapPropagator
	Metrics    http.Handler // the Prometheus page

	shutdown []func(context.Context) error
}

// Shutdown exports what is left and stops.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	var errs []error
	for _, f := range t.shutdown {
		errs = append(errs, f(ctx))
	}
	return errors.Join(errs...)
}

// Start sets up. The exporters that the environment asks for are made, though
// not yet connected: a collector that is down fails no start.
func Start(ctx context.Context, opts Options) (*Telemetry, error) {
	t := &Telemetry{
		Tracer:     noop.NewTracerProvider(),
		Propagator: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}),
	}
	res, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", opts.Service), attribute.String("service.version", opts.Version)),
		resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("describing this service: %w", err)
	}

	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	page, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("setting up the metrics page: %w", err)
	}
	t.Metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	readers := []sdkmetric.Option{sdkmetric.WithResource(res), sdkmetric.WithReader(page)}
	if opts.wants("METRICS") {
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return nil, fmt.Errorf("setting up the metrics exporter (OTEL_METRICS_EXPORTER=%q): %w", opts.Getenv("OTEL_METRICS_EXPORTER"), err)
		}
		readers = append(readers, sdkmetric.WithReader(reader))
	}
	meter := sdkmetric.NewMeterProvider(readers...)
	t.Meter = meter
	t.shutdown = append(t.shutdown, meter.Shutdown)

	if opts.wants("TRACES") {
		exporter, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("setting up the trace exporter (OTEL_TRACES_EXPORTER=%q): %w", opts.Getenv("OTEL_TRACES_EXPORTER"), err), t.Shutdown(ctx))
		}
		// The sampler comes from OTEL_TRACES_SAMPLER; its default follows the caller.
		tracer := sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(exporter))
		t.Tracer = tracer
		t.shutdown = append(t.shutdown, tracer.Shutdown)
	}
	return t, nil
}

// wants reports whether the environment asks for the export of a signal:
// TRACES or METRICS.
func (o Options) wants(signal string) bool {
	if o.Getenv("OTEL_SDK_DISABLED") == "true" {
		return false
	}
	if exporter := o.Getenv("OTEL_" + signal + "_EXPORTER"); exporter != "" {
		return exporter != "none"
	}
	return o.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || o.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}
