package database

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"

	"github.com/pressly/goose/v3"
)

// migrationsFolder is where embedded migrations may lie inside fsys.
const migrationsFolder = "migrations"

var servicePattern = regexp.MustCompile(`^[a-z][a-z0-9]{0,31}$`)

// Migrate brings a service's tables up to date with the goose SQL files of
// fsys, which lie at its root or in its folder "migrations". The versions
// applied are kept in the table <service>_migrations; service is up to 32 of
// a-z0-9 starting with a letter. Applying nothing is not an error.
func (db *DB) Migrate(ctx context.Context, service string, fsys fs.FS) error {
	if !servicePattern.MatchString(service) {
		return fmt.Errorf("migrating: bad service name %.40q", service)
	}
	if info, err := fs.Stat(fsys, migrationsFolder); err == nil && info.IsDir() {
		if fsys, err = fs.Sub(fsys, migrationsFolder); err != nil {
			return fmt.Errorf("migrating %s: %w", service, err)
		}
	}
	return db.submit(&job{mode: bare, ctx: ctx, bare: func(ctx context.Context) error {
		return db.migrate(ctx, service, fsys)
	}})
}

func (db *DB) migrate(ctx context.Context, service string, fsys fs.FS) error {
	provider, err := goose.NewProvider(goose.DialectSQLite3, db.writer, fsys,
		goose.WithTableName(service+"_migrations"), goose.WithDisableGlobalRegistry(true))
	if errors.Is(err, goose.ErrNoMigrations) {
		return fmt.Errorf("migrating %s: no migrations in the given files", service)
	}
	if err != nil {
		return fmt.Errorf("migrating %s: %w", service, err)
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return fmt.Errorf("migrating %s: %w", service, err)
	}
	for _, result := range results {
		db.logger.InfoContext(ctx, "migration applied", "service", service,
			"version", result.Source.Version, "duration", result.Duration)
	}
	return nil
}
