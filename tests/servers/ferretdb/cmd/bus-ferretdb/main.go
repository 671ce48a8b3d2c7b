// Command bus-ferretdb serves the MongoDB protocol for tests: FerretDB with its PostgreSQL handler.
//
// It is built inside a patched copy of FerretDB's module; tests/servers/mongodb.py says what is patched and why.
package main

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:27017", "address to serve on")
	postgresql := flag.String("postgresql", "", "URL of the PostgreSQL that keeps the data")
	flag.Parse()
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))

	server, err := ferretdb.New(&ferretdb.Config{
		Listener:      ferretdb.ListenerConfig{TCP: *listen},
		Logger:        logger,
		Handler:       "postgresql",
		PostgreSQLURL: *postgresql,
	})
	if err != nil {
		logger.Error("cannot start", "error", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := server.Run(ctx); err != nil {
		logger.Error("ended", "error", err)
		os.Exit(1)
	}
}
