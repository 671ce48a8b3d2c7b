// The OpenTelemetry Collector with one receiver and one exporter: OTLP in, a file with a line of OTLP's JSON for each
// request out. The exporter is ours, since those of the distributions need the libraries of clouds.
package main

import (
	"context"
	"errors"
	"log"
	"os"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

type fileConfig struct {
	Path string `mapstructure:"path"`
}

func (config *fileConfig) Validate() error {
	if config.Path == "" {
		return errors.New("path is missing")
	}
	return nil
}

func newFileExporter() exporter.Factory {
	kind := component.MustNewType("lines")
	create := func(ctx context.Context, set exporter.Settings, config component.Config) (exporter.Traces, error) {
		file, err := os.OpenFile(config.(*fileConfig).Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		marshaler := ptrace.JSONMarshaler{}
		write := func(_ context.Context, traces ptrace.Traces) error {
			line, err := marshaler.MarshalTraces(traces)
			if err != nil {
				return err
			}
			_, err = file.Write(append(line, '\n'))
			return err
		}
		end := func(context.Context) error { return file.Close() }
		return exporterhelper.NewTraces(ctx, set, config, write, exporterhelper.WithShutdown(end))
	}
	return exporter.NewFactory(
		kind,
		func() component.Config { return &fileConfig{} },
		exporter.WithTraces(create, component.StabilityLevelDevelopment),
	)
}

func factories() (otelcol.Factories, error) {
	receivers, err := otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	if err != nil {
		return otelcol.Factories{}, err
	}
	exporters, err := otelcol.MakeFactoryMap[exporter.Factory](newFileExporter())
	if err != nil {
		return otelcol.Factories{}, err
	}
	return otelcol.Factories{
		Receivers: receivers,
		Exporters: exporters,
		Telemetry: otelconftelemetry.NewFactory(),
	}, nil
}

func main() {
	settings := otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "otel-collector", Description: "for tests", Version: "0.165.0"},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{
			ResolverSettings: confmap.ResolverSettings{
				DefaultScheme:     "file",
				ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()},
			},
		},
	}
	if err := otelcol.NewCommand(settings).Execute(); err != nil {
		log.Fatal(err)
	}
}
