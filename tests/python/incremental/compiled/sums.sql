show tblproperties world.sums;

describe history world.sums limit 20;

describe extended world.sums;

alter table world.sums set tblproperties ('headwaters.pending' = '{"id": "<run>", "seen": {"version": 0, "at": 0}, "inputs": {"world_inputs.events": {"version": 2, "at": 0}}}');

create table world.sums__stage using parquet as
select *, total / events as `average` from (
select _delta.`id`, cast(coalesce(_target.`events`, 0) + coalesce(_delta.`events`, 0) as bigint) as `events`, cast(coalesce(_target.`total`, 0) + coalesce(_delta.`total`, 0) as bigint) as `total`, cast(coalesce(_target.`quarters`, cast(0 as decimal(30,2))) + coalesce(_delta.`quarters`, cast(0 as decimal(30,2))) as decimal(30,2)) as `quarters`, if(_target._here is null, 'insert', if(coalesce(_target.`events`, 0) + coalesce(_delta.`events`, 0) = 0 and _lasting._stays is null, 'delete', 'update')) as _operation
from (
with events as (
    select * from (select * except (_change_type, _commit_version, _commit_timestamp), case when _change_type in ('insert', 'update_postimage') then 1 else -1 end as _weight
from (select * from table_changes('world_inputs.events', 2, 2) where if(contains(cast(`note` as string), '�'), raise_error('HW_NOT_UTF8'), true))) as `events`
),
final as (
    select
        id,
        sum(_weight) as events,
        sum(cast(val as bigint) * _weight) as total,
        sum(cast(val / 4 as decimal(9, 2)) * _weight) as quarters
    from events
    where moment >= 0 or moment is null
    group by id
)
select * from final
) as _delta left join (select *, true as _here from (select /*+ broadcast(_few) */ _all.* from world.sums as _all left semi join (
with events as (
    select * from (select * except (_change_type, _commit_version, _commit_timestamp), case when _change_type in ('insert', 'update_postimage') then 1 else -1 end as _weight
from (select * from table_changes('world_inputs.events', 2, 2) where if(contains(cast(`note` as string), '�'), raise_error('HW_NOT_UTF8'), true))) as `events`
),
final as (
    select
        id,
        sum(_weight) as events,
        sum(cast(val as bigint) * _weight) as total,
        sum(cast(val / 4 as decimal(9, 2)) * _weight) as quarters
    from events
    where moment >= 0 or moment is null
    group by id
)
select * from final
) as _few on _all.`id` <=> _few.`id`)) as _target on _delta.`id` <=> _target.`id`
left join (select `id`, true as _stays from (
with events as (
    select * from (select * from (select *, 1 as _weight from world_inputs.events version as of 2) where false) as `events`
),
final as (
    select
        id,
        sum(_weight) as events,
        sum(cast(val as bigint) * _weight) as total,
        sum(cast(val / 4 as decimal(9, 2)) * _weight) as quarters
    from events
    where moment >= 0 or moment is null
    group by id
)
select * from final
)) as _lasting on _delta.`id` <=> _lasting.`id`
where coalesce(_delta.`events`, 0) <> 0 or coalesce(_delta.`total`, 0) <> 0 or coalesce(_delta.`quarters`, 0) <> 0
);

select count(*) as staged,
count_if(_operation = 'insert') as inserted,
count_if(_operation = 'update') as updated,
count_if(_operation = 'delete') as deleted,
(select count(distinct struct(`id`)) from world.sums__stage) as distinct_keys,
coalesce(aggregate(collect_set(struct(_metadata.file_path, _metadata.file_size)), 0L,
(total, file) -> total + file.file_size), 0L) as bytes,
typeof(any_value(struct(* except (_operation)))) as stage_type,
typeof((select struct(*) from (
select * from world.sums
) limit 0)) as target_type,
0 as misplaced,
(select if(coalesce(bool_and(regexp_extract(left(if(typeof(`id`) like 'timestamp%', get_json_object(to_json(named_struct('v', `id`), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(`id` as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) = if(typeof(`id`) like 'timestamp%', get_json_object(to_json(named_struct('v', `id`), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(`id` as string))), true), to_json(collect_set(regexp_extract(left(if(typeof(`id`) like 'timestamp%', get_json_object(to_json(named_struct('v', `id`), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(`id` as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0))), null) from (select `id` from world.sums__stage limit 1000)) as some_keys,
regexp_extract(left(if(typeof(min(`id`)) like 'timestamp%', get_json_object(to_json(named_struct('v', min(`id`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(min(`id`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) as least_1,
regexp_extract(left(if(typeof(max(`id`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`id`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`id`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) as greatest_1,
regexp_extract(left(if(typeof(max(`id`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`id`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`id`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) = if(typeof(max(`id`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`id`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`id`) as string)) as whole_1,
count_if(`id` is null) as nulls_1,
typeof(any_value(`id`)) as type_1
from world.sums__stage;

describe history world.sums limit 20;

insert into world.sums with ('userMetadata' = 'headwaters run <run>', 'targetAlias' = '_target',
'replaceOn' = '_target.`id` = _staged.`id` and _target.`id` between 1 and 7 and _target.`id` in (1, 7)')
replace where true
select * except (_operation) from world.sums__stage as _staged where _operation <> 'delete';

alter table world.sums set tblproperties ('headwaters.inputs' = '{"world_inputs.events": {"version": 2, "at": 0}}', 'headwaters.run' = '{"id": "<run>", "seen": {"version": 0, "at": 0}}', 'headwaters.columns' = '{"world_inputs.events": "2cd66c3b452934a6307a9ec3c60ad009"}', 'headwaters.pending' = 'null', 'headwaters.layout' = '{"seen": {"version": 0, "at": 0}, "layout": [[], [], null]}', 'headwaters.proof' = '{"keys": {}, "rules": "12"}');

drop table if exists world.sums__stage;
