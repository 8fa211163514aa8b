#!/bin/bash
# Writes the files beside this script. Needs a PostgreSQL with wal_level = logical and wal2json (for
# example Debian's postgresql-15-wal2json) that PGHOST, PGUSER and PGDATABASE name, and psql and
# pg_recvlogical in PATH.
set -euo pipefail
cd "$(dirname "$0")"
export PGTZ=UTC
run() { psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 "$@"; }

run << 'SQL'
create table items (
    id int primary key, note text, body text, amount numeric(12, 2), ratio float8, ok boolean,
    day date, at timestamptz, placed timestamp, scan bytea, tags text[], doc jsonb
);
alter table items alter body set storage external;
create table kept (like items including all);
alter table kept replica identity full;
create table bare (id int, note text);
insert into items values (1, 'before', repeat('x', 2100));
insert into kept values (1, 'before', repeat('x', 2100));
insert into bare values (1, 'before');
SQL
for slot in version_2 version_1 pretty; do
    pg_recvlogical --dbname "$PGDATABASE" --create-slot --slot $slot --plugin wal2json
done
run << 'SQL'
insert into items values (
    2, E'Zoë, "Z"\nC:\\new', 'short', 1.50, 0.1, true, '2026-02-03',
    '2026-02-03 04:05:06.123456+02', '2026-02-03 04:05:06', '\x00ff',
    array['a,b', null, '"q"', ''], '{"n": 1.10, "s": "x"}'
);
insert into items values (
    3, '', null, 'NaN', 'Infinity', false, null, null, null, '', '{}', 'null'
);
insert into items (id, day, at, placed) values (8, 'infinity', '-infinity', 'infinity');
insert into items (id) values (4);
update items set amount = 20 where id = 1;
update items set id = 5 where id = 4;
delete from items where id = 5;
update kept set amount = 2 where id = 1;
delete from kept;
update items set note = null where id = 2;
delete from bare;
truncate items;
begin;
insert into items (id, note) values (6, 'a'), (7, 'b');
select pg_logical_emit_message(true, 'shop', '{"id": 8}');
commit;
begin;
insert into items (id) values (9);
rollback;
SQL
end=$(run --tuples-only --no-align --command 'select pg_current_wal_lsn()')
receive() {
    pg_recvlogical --dbname "$PGDATABASE" --start --slot "$1" --file "$2" --endpos "$end" --no-loop "${@:3}"
    pg_recvlogical --dbname "$PGDATABASE" --drop-slot --slot "$1"
}
receive version_2 version-2.jsonl --option format-version=2 --option include-lsn=1
receive version_1 version-1.jsonl
receive pretty version-1-pretty.json --option pretty-print=1
run --command 'drop table items, kept, bare'
