package database

import (
	"context"
	"database/sql/driver"

	sqlite3 "modernc.org/sqlite"
)

// maxStatements is how many statements a SQLite connection keeps prepared.
const maxStatements = 256

// sqliteDriver is the SQLite driver with connections that keep the statements
// they have run: parsing and planning one costs more than running it.
type sqliteDriver struct{ driver.Connector }

func newDriver(dsn string) (driver.Connector, error) {
	connector, err := sqlite3.NewConnector(dsn)
	return sqliteDriver{connector}, err
}

func (d sqliteDriver) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := d.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &sqliteConn{conn.(driverConn), make(map[string]driverStmt)}, nil
}

// driverConn, driverStmt and driverRows are what the driver's own types can do.
type (
	driverConn interface {
		driver.Conn
		driver.ConnBeginTx
		driver.ConnPrepareContext
		driver.ExecerContext
		driver.QueryerContext
		driver.Pinger
		driver.SessionResetter
		driver.Validator
	}
	driverStmt interface {
		driver.Stmt
		driver.StmtExecContext
		driver.StmtQueryContext
	}
	driverRows interface {
		driver.Rows
		driver.RowsColumnTypeDatabaseTypeName
		driver.RowsColumnTypeLength
		driver.RowsColumnTypeNullable
		driver.RowsColumnTypePrecisionScale
		driver.RowsColumnTypeScanType
	}
)

// sqliteConn keeps statements by their text. One that runs is not among them,
// so that the same text may run inside the reading of its own rows.
type sqliteConn struct {
	driverConn
	kept map[string]driverStmt
}

// Unwrap is the driver's own connection.
func (c *sqliteConn) Unwrap() driver.Conn { return c.driverConn }

// take returns a kept statement, or prepares one.
func (c *sqliteConn) take(ctx context.Context, query string) (driverStmt, error) {
	if stmt, found := c.kept[query]; found {
		delete(c.kept, query)
		return stmt, nil
	}
	stmt, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt.(driverStmt), nil
}

// keep gives a statement back that has come to its end. When there are too
// many, any other goes: what is used often soon comes back.
func (c *sqliteConn) keep(query string, stmt driverStmt) error {
	if _, found := c.kept[query]; found {
		return stmt.Close()
	}
	for other, victim := range c.kept {
		if len(c.kept) < maxStatements {
			break
		}
		delete(c.kept, other)
		if err := victim.Close(); err != nil {
			return err
		}
	}
	c.kept[query] = stmt
	return nil
}

func (c *sqliteConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	stmt, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	result, err := stmt.ExecContext(ctx, args)
	if keepErr := c.keep(query, stmt); err == nil {
		err = keepErr
	}
	return result, err
}

func (c *sqliteConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	stmt, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.QueryContext(ctx, args)
	if err != nil {
		_ = stmt.Close() // tells the same error again
		return nil, err
	}
	return &sqliteRows{rows.(driverRows), c, query, stmt}, nil
}

func (c *sqliteConn) Close() error {
	for _, stmt := range c.kept {
		_ = stmt.Close() // tells how it ended last, which its caller knows
	}
	c.kept = nil
	return c.driverConn.Close()
}

// sqliteRows give their statement back when they are closed.
type sqliteRows struct {
	driverRows
	conn  *sqliteConn
	query string
	stmt  driverStmt
}

func (r *sqliteRows) Close() error {
	if err := r.driverRows.Close(); err != nil {
		_ = r.stmt.Close()
		return err
	}
	return r.conn.keep(r.query, r.stmt)
}
