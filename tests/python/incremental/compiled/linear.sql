show tblproperties world.linear;

describe history world.linear limit 20;

alter table world.linear set tblproperties ('headwaters.pending' = '{"id": "<run>", "seen": {"version": 0, "at": 0}, "inputs": {"world_inputs.items": {"version": 4, "at": 0}, "world_inputs.rates": {"version": 1, "at": 0}}}');

create table world.linear__stage using parquet as
with _appeared as (select struct(*) as _row, `id` from (
with items as (
    select * from (select * except (_hw_net, _hw_copy) from (select * except (_change_type, _commit_version, _commit_timestamp), sum(case when _change_type in ('insert', 'update_postimage') then 1 else -1 end) as _hw_net from (select * from table_changes('world_inputs.items', 2, 4) where if(contains(cast(`grp` as string), '�'), raise_error('HW_NOT_UTF8'), true)) group by all)
lateral view explode(array_repeat(0, cast(greatest(_hw_net, 0) as int))) _copies as _hw_copy) as `items`
),
rates as (
    select * from /* lookup {"at": 0, "kind": "lookup", "source": "world_inputs.rates", "version": 1} */ world_inputs.rates version as of 1 as `rates`
),
final as (
    select
        items.id,
        items.grp,
        items.val * 2 as twice,
        rates.rate
    from items
    left join rates
        on items.grp = rates.grp
    where items.val < 50
)
select * from final
)),
_disappeared as (select struct(*) as _row, `id` from (
with items as (
    select * from (select * except (_hw_net, _hw_copy) from (select * except (_change_type, _commit_version, _commit_timestamp), sum(case when _change_type in ('insert', 'update_postimage') then 1 else -1 end) as _hw_net from (select * from table_changes('world_inputs.items', 2, 4) where if(contains(cast(`grp` as string), '�'), raise_error('HW_NOT_UTF8'), true)) group by all)
lateral view explode(array_repeat(0, cast(greatest(-_hw_net, 0) as int))) _copies as _hw_copy) as `items`
),
rates as (
    select * from /* lookup {"at": 0, "kind": "lookup", "source": "world_inputs.rates", "version": 1} */ world_inputs.rates version as of 1 as `rates`
),
final as (
    select
        items.id,
        items.grp,
        items.val * 2 as twice,
        rates.rate
    from items
    left join rates
        on items.grp = rates.grp
    where items.val < 50
)
select * from final
))
select inline(array(coalesce(_new._row, _old._row))), _old._row.`grp` as _before_1, case when _old._row is null then 'insert' when _new._row is null then 'delete' else 'update' end as _operation
from (select *, count(*) over (partition by `id`) as _copies from _appeared) as _new full outer join _disappeared as _old on _new.`id` <=> _old.`id`
where not (_new._row <=> _old._row) or _new._copies > 1;

select count(*) as staged,
count_if(_operation = 'insert') as inserted,
count_if(_operation = 'update') as updated,
count_if(_operation = 'delete') as deleted,
(select count(distinct struct(`id`)) from world.linear__stage) as distinct_keys,
coalesce(aggregate(collect_set(struct(_metadata.file_path, _metadata.file_size)), 0L,
(total, file) -> total + file.file_size), 0L) as bytes,
typeof(any_value(struct(* except (_operation, _before_1)))) as stage_type,
typeof((select struct(*) from (
select * from world.linear
) limit 0)) as target_type,
0 as misplaced,
(select if(coalesce(bool_and(regexp_extract(left(if(typeof(`id`) like 'timestamp%', get_json_object(to_json(named_struct('v', `id`), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(`id` as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) = if(typeof(`id`) like 'timestamp%', get_json_object(to_json(named_struct('v', `id`), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(`id` as string))), true), to_json(collect_set(regexp_extract(left(if(typeof(`id`) like 'timestamp%', get_json_object(to_json(named_struct('v', `id`), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(`id` as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0))), null) from (select `id` from world.linear__stage limit 1000)) as some_keys,
regexp_extract(left(if(typeof(min(`id`)) like 'timestamp%', get_json_object(to_json(named_struct('v', min(`id`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(min(`id`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) as least_1,
regexp_extract(left(if(typeof(max(`id`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`id`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`id`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) as greatest_1,
regexp_extract(left(if(typeof(max(`id`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`id`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`id`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) = if(typeof(max(`id`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`id`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`id`) as string)) as whole_1,
count_if(`id` is null) as nulls_1,
typeof(any_value(`id`)) as type_1,
regexp_extract(left(if(typeof(min(`_before_1`)) like 'timestamp%', get_json_object(to_json(named_struct('v', min(`_before_1`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(min(`_before_1`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) as least_2,
regexp_extract(left(if(typeof(max(`_before_1`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`_before_1`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`_before_1`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) as greatest_2,
regexp_extract(left(if(typeof(max(`_before_1`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`_before_1`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`_before_1`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) = if(typeof(max(`_before_1`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`_before_1`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`_before_1`) as string)) as whole_2,
count_if(`_before_1` is null) as nulls_2,
typeof(any_value(`_before_1`)) as type_2
from world.linear__stage;

describe history world.linear limit 20;

select count(*) as present, count_if(_staged._operation = 'insert') as inserted from world.linear as _target
inner join world.linear__stage as _staged on _target.`id` <=> _staged.`id`
where _target.`id` between 1 and 9 and _target.`id` in (1, 9);

insert into world.linear with ('userMetadata' = 'headwaters run <run>', 'targetAlias' = '_target',
'replaceOn' = '_target.`id` = _staged.`id` and _target.`id` between 1 and 9 and _target.`id` in (1, 9) and (_target.`grp` between \'a\' and \'a\' or _target.`grp` is null)')
replace where true
select * except (_operation, _before_1) from world.linear__stage as _staged where _operation <> 'delete';

alter table world.linear set tblproperties ('headwaters.inputs' = '{"world_inputs.items": {"version": 4, "at": 0}, "world_inputs.rates": {"version": 1, "at": 0}}', 'headwaters.run' = '{"id": "<run>", "seen": {"version": 0, "at": 0}}', 'headwaters.columns' = '{"world_inputs.items": "6bbb89f7ad97bd20ae1e52c07339ce88"}', 'headwaters.pending' = 'null', 'headwaters.layout' = '{"seen": {"version": 0, "at": 0}, "layout": [[], ["grp"], null]}', 'headwaters.proof' = '{"keys": {}, "rules": "12"}');

drop table if exists world.linear__stage;
