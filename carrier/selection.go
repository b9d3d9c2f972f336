package carrier

import (
	"database/sql"
	"fmt"
	"strings"
)

// selection collects the conditions of a query. Column names come from the
// program, values go through placeholders.
type selection struct {
	where []string
	args  []any
}

func (q *selection) add(condition string, value any) {
	q.args = append(q.args, value)
	q.where = append(q.where, fmt.Sprintf("%s $%d", condition, len(q.args)))
}

func (q *selection) equal(column, value string) {
	if value != "" {
		q.add(column+" =", value)
	}
}

func (q *selection) after(seq int64) {
	if seq > 0 {
		q.add("seq >", seq)
	}
}

func (q *selection) states(states []State) {
	if len(states) == 0 {
		return
	}
	var places []string
	for _, state := range states {
		q.args = append(q.args, state)
		places = append(places, fmt.Sprintf("$%d", len(q.args)))
	}
	q.where = append(q.where, "state IN ("+strings.Join(places, ", ")+")")
}

// clause is everything after the table's name.
func (q *selection) clause(newest bool, limit int) string {
	var text strings.Builder
	if len(q.where) > 0 {
		text.WriteString(" WHERE " + strings.Join(q.where, " AND "))
	}
	text.WriteString(" ORDER BY seq")
	if newest {
		text.WriteString(" DESC")
	}
	if limit <= 0 || limit > MaxList {
		limit = MaxList
	}
	fmt.Fprintf(&text, " LIMIT %d", limit)
	return text.String()
}

// scanAll reads all rows and closes them.
func scanAll[T any](rows *sql.Rows, scan func(*sql.Rows) (T, error)) ([]T, error) {
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}
