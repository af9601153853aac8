package postgres

import (
	"context"
	"fmt"
)

// rights are what the role may do.
type rights struct {
	schema, role, database string

	create bool   // schemas in the database
	stands bool   // the schema
	use    bool   // and make tables in it
	tables bool   // stand there
	owner  string // of the tables
	owns   bool   // the role is the owner, or has its rights
}

const askRights = `SELECT current_user::text, current_database()::text,
has_database_privilege(current_database(), 'CREATE'),
  n.oid IS NOT NULL, coalesce(has_schema_privilege(n.oid, 'CREATE')
  AND has_schema_privilege(n.oid, 'USAGE'), false),
  c.oid IS NOT NULL, coalesce(pg_get_userbyid(c.relowner)::text, ''),
  coalesce(pg_has_role(c.relowner, 'USAGE'), false)
FROM (SELECT $1::text AS name) s LEFT JOIN pg_namespace n ON n.nspname = s.name
  LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'store'`

func (s *schema) rights(ctx context.Context) (r rights, err error) {
	r.schema = s.conf.Schema
	err = s.glance(ctx, ask(askRights, func(row row) error {
		return row.Scan(&r.role, &r.database, &r.create, &r.stands, &r.use, &r.tables, &r.owner,
			&r.owns)
	}, r.schema))
	return r, err
}

// refusal says why the role can't work here, and what its administrator should run.
func (r *rights) refusal() error {
	switch {
	case !r.stands && !r.create:
		return fmt.Errorf("role %q may not make schema %s in database %q: %s", r.role, r.schema,
			r.database, r.grant())
	case r.stands && !r.use, r.tables && !r.owns:
		return fmt.Errorf("role %q lacks rights in schema %s: %s", r.role, r.schema, r.grant())
	}
	return nil
}

// grant is the statement that gives the role what it lacks. The tables' owner it must be, or have
// its rights, because partitions are made and dropped as time goes on.
func (r *rights) grant() string {
	role := quoted(r.role)
	switch {
	case !r.stands:
		return fmt.Sprintf("let an administrator run: CREATE SCHEMA %s AUTHORIZATION %s;", r.schema,
			role)
	case r.tables && !r.owns:
		return fmt.Sprintf("its tables belong to %q: let an administrator run: GRANT %s TO %s;",
			r.owner, quoted(r.owner), role)
	}
	return fmt.Sprintf("let an administrator run: GRANT USAGE, CREATE ON SCHEMA %s TO %s;",
		r.schema, role)
}

// quoted is a name as it stands in a statement.
func quoted(name string) string {
	out := []byte{'"'}
	for i := range len(name) {
		if name[i] == '"' {
			out = append(out, '"')
		}
		out = append(out, name[i])
	}
	return string(append(out, '"'))
}
