"""Append-only tables: the triggers that refuse a change, and whether they are there.

Contract: `append_only` marks a table; its triggers are made with it, in SQLite and in
PostgreSQL, and refuse UPDATE, DELETE and TRUNCATE for everybody, the ledger included.
`trigger_problem` compares a database with what was marked: a trigger that is missing or
says something else, or one, or a view, that is not ours. Who owns the database can drop
them; then it shows.
"""

from sqlalchemy import Connection, Table, event, inspect

__all__ = ["append_only", "trigger_problem"]

_MARKED: list[str] = []
_STATEMENTS = {
    "sqlite": {
        f"{{name}}_no_{action}": (
            f"create trigger {{name}}_no_{action} before {action} on {{name}} "
            "begin select raise(abort, '{name} is append-only'); end"
        )
        for action in ("update", "delete")
    },
    "postgresql": {
        "{name}_is_append_only": (
            "create or replace function {name}_is_append_only() returns trigger "
            "language plpgsql as $$ begin "
            "raise exception '{name} is append-only'; end $$"
        ),
        "{name}_no_change": (
            "create trigger {name}_no_change before update or delete or truncate "
            "on {name} for each statement execute function {name}_is_append_only()"
        ),
    },
}
# Name and text of every trigger and view; of PostgreSQL's triggers the function's body,
# with D before it where the trigger is switched off.
_LOOK = {
    "sqlite": (
        "select name, lower(sql) from sqlite_master where type in ('trigger', 'view')"
    ),
    "postgresql": (
        "select t.tgname, case t.tgenabled when 'D' then 'D' else '' end || p.prosrc "
        "from pg_trigger t join pg_class c on c.oid = t.tgrelid "
        "join pg_proc p on p.oid = t.tgfoid "
        "where not t.tgisinternal and c.relnamespace = current_schema()::regnamespace"
    ),
}


def append_only(table: Table) -> None:
    """Make the database refuse every change of a row that was once written."""
    _MARKED.append(table.name)

    def create_triggers(_: Table, connection: Connection, **__: object) -> None:
        for statement in _STATEMENTS[connection.dialect.name].values():
            connection.exec_driver_sql(statement.format(name=table.name))

    event.listen(table, "after_create", create_triggers)


def trigger_problem(connection: Connection) -> str | None:
    """Say which trigger is not as it was made, or is not ours; None if all are."""
    dialect = connection.dialect.name
    found = {row[0]: row[1] for row in connection.exec_driver_sql(_LOOK[dialect])}
    for name, text in _expected(dialect, _tables(connection)).items():
        if name not in found:
            return f"trigger {name} is missing"
        if found.pop(name).split() != text.split():
            return f"trigger {name} is not what it was"
    strange = min(found, default=None)
    return None if strange is None else f"{strange} is no trigger of the ledger"


def _tables(connection: Connection) -> list[str]:
    """Return the marked tables that are there: an earlier schema has not all."""
    present = set(inspect(connection).get_table_names())
    return [table for table in _MARKED if table in present]


def _expected(dialect: str, tables: list[str]) -> dict[str, str]:
    if dialect == "sqlite":
        return {
            name.format(name=table): statement.format(name=table).lower()
            for table in tables
            for name, statement in _STATEMENTS[dialect].items()
        }
    body = " begin raise exception '{name} is append-only'; end "
    return {f"{table}_no_change": body.format(name=table) for table in tables}
