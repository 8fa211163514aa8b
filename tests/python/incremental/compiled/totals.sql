show tblproperties world.totals;

describe history world.totals limit 20;

select regexp_extract(left(if(typeof(min(`grp`)) like 'timestamp%', get_json_object(to_json(named_struct('v', min(`grp`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(min(`grp`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) as least_1,
regexp_extract(left(if(typeof(max(`grp`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`grp`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`grp`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) as greatest_1,
regexp_extract(left(if(typeof(max(`grp`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`grp`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`grp`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) = if(typeof(max(`grp`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`grp`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`grp`) as string)) as whole_1,
count_if(`grp` is null) as nulls_1,
typeof(any_value(`grp`)) as type_1,
to_json(collect_set(array(case when `grp` is null then null when regexp_extract(left(if(typeof(`grp`) like 'timestamp%', get_json_object(to_json(named_struct('v', `grp`), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(`grp` as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) = if(typeof(`grp`) like 'timestamp%', get_json_object(to_json(named_struct('v', `grp`), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(`grp` as string)) then regexp_extract(left(if(typeof(`grp`) like 'timestamp%', get_json_object(to_json(named_struct('v', `grp`), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(`grp` as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) else char(1) end))) as listed,
size(array_distinct(array(typeof((select struct(*) from (
select `grp` from world.totals
) limit 0)), typeof((select struct(*) from (
select _keyed.`grp` as `grp` from world_inputs.items version as of 4 as _keyed
) limit 0)), typeof(any_value(struct(`grp`)))))) as types,
typeof((select struct(*) from (
select * from world.totals
) limit 0)) as held,
typeof((select struct(*) from (
with items as (
    select * from /* affected {"at": 0, "key": {"grp": "grp"}, "kind": "affected", "source": "world_inputs.items", "version": 4} */ world_inputs.items version as of 4 as `items`
),
final as (
    select
        grp,
        val > 20 as is_large,
        count(*) as item_count,
        sum(val) as total,
        max(val) as largest
    from items
    group by grp, val > 20
)
select * from final
) limit 0)) as given
from (
select distinct * from (
select _rows.`grp` as `grp` from (select * from table_changes('world_inputs.items', 2, 4) where if(contains(cast(`grp` as string), '�'), raise_error('HW_NOT_UTF8'), true)) as _rows
)
);

alter table world.totals set tblproperties ('headwaters.pending' = '{"id": "<run>", "seen": {"version": 0, "at": 0}, "inputs": {"world_inputs.items": {"version": 4, "at": 0}}}');

create table world.totals__stage using parquet as
with _touched as (
select * from values ('a'), ('b'), ('c') as _listed (`grp`)
),
_recomputed as (select struct(*) as _row, `grp`, `is_large` from (
select _model.* from (
with items as (
    select * from (select _input.* from world_inputs.items version as of 4 as _input where _input.`grp` between 'a' and 'c' and _input.`grp` in ('a', 'b', 'c')) as `items`
),
final as (
    select
        grp,
        val > 20 as is_large,
        count(*) as item_count,
        sum(val) as total,
        max(val) as largest
    from items
    group by grp, val > 20
)
select * from final
) as _model left join (select *, true as _is_touched from _touched) as _known on _model.`grp` <=> _known.`grp`
where if(_is_touched, true, raise_error('world.totals has a row of grp that comes from no row of an affected() input with that value, so no change of theirs leads to it. Select grp from them as it is, and mark a table that all keys come from with affected(), not lookup().'))
)),
_present as (select struct(_target.*) as _row, _target.`grp`, _target.`is_large` from world.totals as _target
where _target.`grp` between 'a' and 'c' and _target.`grp` in ('a', 'b', 'c'))
select inline(array(coalesce(_new._row, _old._row))), case when _old._row is null then 'insert' when _new._row is null then 'delete' else 'update' end as _operation
from (select *, count(*) over (partition by `grp`, `is_large`) as _copies from _recomputed) as _new full outer join _present as _old on _new.`grp` <=> _old.`grp` and _new.`is_large` <=> _old.`is_large`
where not (_new._row <=> _old._row) or _new._copies > 1;

select count(*) as staged,
count_if(_operation = 'insert') as inserted,
count_if(_operation = 'update') as updated,
count_if(_operation = 'delete') as deleted,
(select count(distinct struct(`grp`, `is_large`)) from world.totals__stage) as distinct_keys,
coalesce(aggregate(collect_set(struct(_metadata.file_path, _metadata.file_size)), 0L,
(total, file) -> total + file.file_size), 0L) as bytes,
typeof(any_value(struct(* except (_operation)))) as stage_type,
typeof((select struct(*) from (
select * from world.totals
) limit 0)) as target_type,
0 as misplaced,
(select if(coalesce(bool_and(regexp_extract(left(if(typeof(`grp`) like 'timestamp%', get_json_object(to_json(named_struct('v', `grp`), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(`grp` as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) = if(typeof(`grp`) like 'timestamp%', get_json_object(to_json(named_struct('v', `grp`), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(`grp` as string))), true), to_json(collect_set(regexp_extract(left(if(typeof(`grp`) like 'timestamp%', get_json_object(to_json(named_struct('v', `grp`), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(`grp` as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0))), null) from (select `grp` from world.totals__stage limit 1000)) as some_keys,
regexp_extract(left(if(typeof(min(`grp`)) like 'timestamp%', get_json_object(to_json(named_struct('v', min(`grp`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(min(`grp`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) as least_1,
regexp_extract(left(if(typeof(max(`grp`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`grp`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`grp`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) as greatest_1,
regexp_extract(left(if(typeof(max(`grp`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`grp`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`grp`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) = if(typeof(max(`grp`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`grp`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`grp`) as string)) as whole_1,
count_if(`grp` is null) as nulls_1,
typeof(any_value(`grp`)) as type_1,
regexp_extract(left(if(typeof(min(`is_large`)) like 'timestamp%', get_json_object(to_json(named_struct('v', min(`is_large`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(min(`is_large`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) as least_2,
regexp_extract(left(if(typeof(max(`is_large`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`is_large`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`is_large`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) as greatest_2,
regexp_extract(left(if(typeof(max(`is_large`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`is_large`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`is_large`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) = if(typeof(max(`is_large`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`is_large`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`is_large`) as string)) as whole_2,
count_if(`is_large` is null) as nulls_2,
typeof(any_value(`is_large`)) as type_2
from world.totals__stage;

describe history world.totals limit 20;

insert into world.totals with ('userMetadata' = 'headwaters run <run>', 'targetAlias' = '_target',
'replaceOn' = '(_target.`grp`, _target.`is_large`) in (`is_large` from world.totals__stage, select `grp`) and _target.`grp` between \'a\' and \'c\' and _target.`grp` in (\'a\', \'b\', \'c\')')
replace where true
select * except (_operation) from world.totals__stage as _staged where _operation <> 'delete';

alter table world.totals set tblproperties ('headwaters.inputs' = '{"world_inputs.items": {"version": 4, "at": 0}}', 'headwaters.run' = '{"id": "<run>", "seen": {"version": 0, "at": 0}}', 'headwaters.columns' = '{"world_inputs.items": "6bbb89f7ad97bd20ae1e52c07339ce88"}', 'headwaters.pending' = 'null', 'headwaters.layout' = '{"seen": {"version": 0, "at": 0}, "layout": [[], [], null]}', 'headwaters.proof' = '{"keys": {}, "rules": "12"}');

drop table if exists world.totals__stage;
