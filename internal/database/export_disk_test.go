package database

// PragmaOfWriter sets a pragma of the writing connection while no job runs.
func PragmaOfWriter(db *DB, setting string) error {
	_, err := db.backend.(*sqlite).writer.Exec("PRAGMA " + setting)
	return err
}
