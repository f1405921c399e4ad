package migration

import (
	"context"
	"database/sql"
)

func reportWithPostgres(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx) // the lock belongs to this session
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock(hashtext($1))", "report"); err != nil {
		return err
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock(hashtext($1))", "report")
	return report(ctx)
}
