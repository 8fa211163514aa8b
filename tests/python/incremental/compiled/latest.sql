show tblproperties world.latest;

describe history world.latest limit 20;

select regexp_extract(left(if(typeof(min(`id`)) like 'timestamp%', get_json_object(to_json(named_struct('v', min(`id`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(min(`id`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) as least_1,
regexp_extract(left(if(typeof(max(`id`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`id`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`id`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) as greatest_1,
regexp_extract(left(if(typeof(max(`id`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`id`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`id`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) = if(typeof(max(`id`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`id`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`id`) as string)) as whole_1,
count_if(`id` is null) as nulls_1,
typeof(any_value(`id`)) as type_1,
to_json(collect_set(array(case when `id` is null then null when regexp_extract(left(if(typeof(`id`) like 'timestamp%', get_json_object(to_json(named_struct('v', `id`), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(`id` as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) = if(typeof(`id`) like 'timestamp%', get_json_object(to_json(named_struct('v', `id`), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(`id` as string)) then regexp_extract(left(if(typeof(`id`) like 'timestamp%', get_json_object(to_json(named_struct('v', `id`), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(`id` as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) else char(1) end))) as listed,
size(array_distinct(array(typeof((select struct(*) from (
select `id` from world.latest
) limit 0)), typeof(any_value(struct(`id`)))))) as types,
typeof((select struct(*) from (
select * from world.latest
) limit 0)) as held,
typeof((select struct(*) from (
with events as (
    select * from /* changes {"at": 0, "kind": "changes", "source": "world_inputs.events", "version": 2} */ world_inputs.events version as of 2 as `events`
),
final as (
    select
        id,
        moment,
        val,
        note
    from events
    where val is not null
)
select * from final
) limit 0)) as given
from (
select distinct * from (select `id` from (
with events as (
    select * from (select * except (_change_type, _commit_version, _commit_timestamp) from (select * from table_changes('world_inputs.events', 2, 2) where if(contains(cast(`note` as string), '�'), raise_error('HW_NOT_UTF8'), true))) as `events`
),
final as (
    select
        id,
        moment,
        val,
        note
    from events
    where val is not null
)
select * from final
))
);

alter table world.latest set tblproperties ('headwaters.pending' = '{"id": "<run>", "seen": {"version": 0, "at": 0}, "inputs": {"world_inputs.events": {"version": 2, "at": 0}}}');

create table world.latest__stage using parquet as
with _winners as (select struct(*) as _row, * from (
select inline(array(_latest._row)) from (select max(struct(`moment`, struct(*) as _row)) as _latest from (
with events as (
    select * from (select * except (_change_type, _commit_version, _commit_timestamp) from (select * from table_changes('world_inputs.events', 2, 2) where if(contains(cast(`note` as string), '�'), raise_error('HW_NOT_UTF8'), true))) as `events`
),
final as (
    select
        id,
        moment,
        val,
        note
    from events
    where val is not null
)
select * from final
) group by `id`)
)),
_present as (select struct(*) as _row, * from (select /*+ broadcast(_few) */ _all.* from world.latest as _all left semi join _winners as _few on _all.`id` <=> _few.`id`) as _target
where _target.`id` between 1 and 7 and _target.`id` in (1, 7))
select inline(array(_new._row)), if(_old._row is null, 'insert', 'update') as _operation
from _winners as _new left join _present as _old on _new.`id` <=> _old.`id`
where _old._row is null or struct(_new.`moment`, _new._row) > struct(_old.`moment`, _old._row);

select count(*) as staged,
count_if(_operation = 'insert') as inserted,
count_if(_operation = 'update') as updated,
count_if(_operation = 'delete') as deleted,
(select count(distinct struct(`id`)) from world.latest__stage) as distinct_keys,
coalesce(aggregate(collect_set(struct(_metadata.file_path, _metadata.file_size)), 0L,
(total, file) -> total + file.file_size), 0L) as bytes,
typeof(any_value(struct(* except (_operation)))) as stage_type,
typeof((select struct(*) from (
select * from world.latest
) limit 0)) as target_type,
0 as misplaced,
(select if(coalesce(bool_and(regexp_extract(left(if(typeof(`id`) like 'timestamp%', get_json_object(to_json(named_struct('v', `id`), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(`id` as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) = if(typeof(`id`) like 'timestamp%', get_json_object(to_json(named_struct('v', `id`), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(`id` as string))), true), to_json(collect_set(regexp_extract(left(if(typeof(`id`) like 'timestamp%', get_json_object(to_json(named_struct('v', `id`), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(`id` as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0))), null) from (select `id` from world.latest__stage limit 1000)) as some_keys,
regexp_extract(left(if(typeof(min(`id`)) like 'timestamp%', get_json_object(to_json(named_struct('v', min(`id`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(min(`id`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) as least_1,
regexp_extract(left(if(typeof(max(`id`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`id`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`id`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) as greatest_1,
regexp_extract(left(if(typeof(max(`id`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`id`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`id`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) = if(typeof(max(`id`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`id`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`id`) as string)) as whole_1,
count_if(`id` is null) as nulls_1,
typeof(any_value(`id`)) as type_1
from world.latest__stage;

describe history world.latest limit 20;

insert into world.latest with ('userMetadata' = 'headwaters run <run>', 'targetAlias' = '_target',
'replaceOn' = '_target.`id` = _staged.`id` and _target.`id` between 1 and 7 and _target.`id` in (1, 7)')
replace where true
select * except (_operation) from world.latest__stage as _staged where _operation <> 'delete';

alter table world.latest set tblproperties ('headwaters.inputs' = '{"world_inputs.events": {"version": 2, "at": 0}}', 'headwaters.run' = '{"id": "<run>", "seen": {"version": 0, "at": 0}}', 'headwaters.columns' = '{"world_inputs.events": "2cd66c3b452934a6307a9ec3c60ad009"}', 'headwaters.pending' = 'null', 'headwaters.layout' = '{"seen": {"version": 0, "at": 0}, "layout": [[], [], null]}', 'headwaters.proof' = '{"keys": {}, "rules": "12"}');

drop table if exists world.latest__stage;
