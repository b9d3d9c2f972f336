package retention

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ErrPerson means that a person was not named by a public key in 64 lowercase
// hex digits.
var ErrPerson = errors.New("retention: a person is named by 64 lowercase hex digits")

// Table declares one SQL table. The texts stand in docs/retention.md.
type Table struct {
	// Name of the table.
	Name string
	// Holds says in a few words what is in it.
	Holds string
	// Lifetime says in words how long a row stays.
	Lifetime string
	// Person is a condition over the table, in SQL of both databases, that
	// selects the rows about the person whose public key is $1. Empty: the
	// table holds nothing about persons that could be told apart.
	Person string
	// Erase is the condition of the rows that an erase takes, where that is not
	// Person.
	Erase string
	// Blank are assignments, such as "sender = ''". Where it is set, an erase
	// makes them in the rows instead of deleting these: what is left names
	// nobody and is needed.
	Blank string
}

// Export gives emit one JSON document without a line end for each row about a
// person: {"table":"…","row":{…}}, the columns in the order of the table and
// byte strings in base64 (RFC 4648, section 4). One row at a time is in
// memory. emit must not keep the line. Rows come table by table in the order
// given, and within one in no order.
func Export(ctx context.Context, tx *sql.Tx, tables []Table, person string, emit func(line []byte) error) error {
	if !isKey(person) {
		return ErrPerson
	}
	for _, t := range tables {
		if t.Person == "" {
			continue
		}
		if err := t.export(ctx, tx, person, emit); err != nil {
			return fmt.Errorf("exporting %s: %w", t.Name, err)
		}
	}
	return nil
}

// Erase removes what the tables hold about a person, in the order given: rows
// that others are found by come last. It returns the number of rows of each
// table that were deleted or emptied, without those that a foreign key took
// along.
func Erase(ctx context.Context, tx *sql.Tx, tables []Table, person string) (removed map[string]int64, err error) {
	if !isKey(person) {
		return nil, ErrPerson
	}
	removed = make(map[string]int64)
	for _, t := range tables {
		if t.Person == "" && t.Erase == "" {
			continue
		}
		result, err := tx.ExecContext(ctx, t.erasure(), person)
		if err != nil {
			return nil, fmt.Errorf("erasing from %s: %w", t.Name, err)
		}
		n, err := result.RowsAffected()
		if err != nil {
			return nil, fmt.Errorf("erasing from %s: %w", t.Name, err)
		}
		if n > 0 {
			removed[t.Name] = n
		}
	}
	return removed, nil
}

// erasure is the statement of an erase.
func (t Table) erasure() string {
	condition := t.Person
	if t.Erase != "" {
		condition = t.Erase
	}
	if t.Blank != "" {
		return "UPDATE " + t.Name + " SET " + t.Blank + " WHERE " + condition
	}
	return "DELETE FROM " + t.Name + " WHERE " + condition
}

func (t Table) export(ctx context.Context, tx *sql.Tx, person string, emit func(line []byte) error) error {
	rows, err := tx.QueryContext(ctx, "SELECT * FROM "+t.Name+" WHERE "+t.Person, person)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.ColumnTypes()
	if err != nil {
		return err
	}
	values := make([]any, len(columns))
	targets := make([]any, len(columns))
	for i := range values {
		targets[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		line, err := encode(t.Name, columns, values)
		if err != nil {
			return err
		}
		if err := emit(line); err != nil {
			return err
		}
	}
	return rows.Err()
}

// encode writes one row; the names are SQL identifiers, which JSON takes as
// they are.
func encode(table string, columns []*sql.ColumnType, values []any) ([]byte, error) {
	var line strings.Builder
	fmt.Fprintf(&line, `{"table":%q,"row":{`, table)
	for i, column := range columns {
		value := values[i]
		if n, ok := value.(int64); ok && column.DatabaseTypeName() == "BOOLEAN" {
			value = n != 0 // SQLite has no truth values of its own
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", column.Name(), err)
		}
		if i > 0 {
			line.WriteByte(',')
		}
		fmt.Fprintf(&line, `%q:%s`, column.Name(), text)
	}
	line.WriteString("}}")
	return []byte(line.String()), nil
}

// isKey reports whether s is 32 bytes in lowercase hex.
func isKey(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
