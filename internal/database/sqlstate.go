package database

import (
	"errors"
	"net"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// errCommitRolledBack is the driver's word for a commit of a transaction in
// which a statement had failed.
var errCommitRolledBack = pgx.ErrTxCommitRollback

// sqlState is the five letters of a server's answer, "" for another error.
func sqlState(err error) string {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answer.Code
	}
	return ""
}

// wasInTheWay reports a job that was undone because of another one that ran
// beside it: run again, it may succeed.
func wasInTheWay(err error) bool {
	state := sqlState(err)
	return state == "40001" || state == "40P01" // serialization failure, deadlock
}

// clashOf names the key that exists already, "" for another error.
func clashOf(err error) string {
	var answer *pgconn.PgError
	if !errors.As(err, &answer) || answer.Code != "23505" {
		return ""
	}
	return answer.ConstraintName + " " + answer.Detail
}

// sentinelOfPostgres sorts an error of the driver; nil for one that is none.
func sentinelOfPostgres(err error) error {
	if state := sqlState(err); state != "" {
		return sentinelOfState(state)
	}
	var connecting *pgconn.ConnectError
	var network *net.OpError
	if errors.As(err, &connecting) || errors.As(err, &network) {
		return ErrTransient
	}
	return nil
}

// sentinelOfState sorts by SQLSTATE, PostgreSQL's appendix A.
func sentinelOfState(state string) error {
	switch state {
	case "23505": // unique_violation
		return ErrUnique
	case "40001", "40P01", "55P03": // serialization_failure, deadlock_detected, lock_not_available
		return ErrBusy
	case "53100":
		return ErrDiskFull
	case "25006", // read_only_sql_transaction: a standby
		"25P03", "25P04", // time-outs of idle and of long transactions
		"57014",                            // query_canceled, by statement_timeout
		"57P01", "57P02", "57P03", "57P05": // going down, crashed, not up yet, idle
		return ErrTransient
	}
	switch state[:2] {
	case "23": // integrity constraint violation
		return ErrConstraint
	case "08", "53", "58": // connection, resources, system
		return ErrTransient
	}
	return nil
}
