show tblproperties world.computed_key;

describe history world.computed_key limit 20;

alter table world.computed_key set tblproperties ('headwaters.pending' = '{"id": "<run>", "seen": {"version": 0, "at": 0}, "inputs": {"world_inputs.items": {"version": 4, "at": 0}}}');

create table world.computed_key__stage using parquet as
with _appeared as (select struct(*) as _row, `upper_grp`, `tens` from (
with items as (
    select * from (select * except (_hw_net, _hw_copy) from (select * except (_change_type, _commit_version, _commit_timestamp), sum(case when _change_type in ('insert', 'update_postimage') then 1 else -1 end) as _hw_net from (select * from table_changes('world_inputs.items', 2, 4) where if(contains(cast(`grp` as string), '�'), raise_error('HW_NOT_UTF8'), true)) group by all)
lateral view explode(array_repeat(0, cast(greatest(_hw_net, 0) as int))) _copies as _hw_copy) as `items`
),
final as (
    select
        upper(grp) as upper_grp,
        id * 10 as tens,
        val
    from items
    where val is not null
)
select * from final
)),
_disappeared as (select struct(*) as _row, `upper_grp`, `tens` from (
with items as (
    select * from (select * except (_hw_net, _hw_copy) from (select * except (_change_type, _commit_version, _commit_timestamp), sum(case when _change_type in ('insert', 'update_postimage') then 1 else -1 end) as _hw_net from (select * from table_changes('world_inputs.items', 2, 4) where if(contains(cast(`grp` as string), '�'), raise_error('HW_NOT_UTF8'), true)) group by all)
lateral view explode(array_repeat(0, cast(greatest(-_hw_net, 0) as int))) _copies as _hw_copy) as `items`
),
final as (
    select
        upper(grp) as upper_grp,
        id * 10 as tens,
        val
    from items
    where val is not null
)
select * from final
))
select inline(array(coalesce(_new._row, _old._row))), case when _old._row is null then 'insert' when _new._row is null then 'delete' else 'update' end as _operation
from (select *, count(*) over (partition by `upper_grp`, `tens`) as _copies from _appeared) as _new full outer join _disappeared as _old on _new.`upper_grp` <=> _old.`upper_grp` and _new.`tens` <=> _old.`tens`
where not (_new._row <=> _old._row) or _new._copies > 1;

select count(*) as staged,
count_if(_operation = 'insert') as inserted,
count_if(_operation = 'update') as updated,
count_if(_operation = 'delete') as deleted,
(select count(distinct struct(`upper_grp`, `tens`)) from world.computed_key__stage) as distinct_keys,
coalesce(aggregate(collect_set(struct(_metadata.file_path, _metadata.file_size)), 0L,
(total, file) -> total + file.file_size), 0L) as bytes,
typeof(any_value(struct(* except (_operation)))) as stage_type,
typeof((select struct(*) from (
select * from world.computed_key
) limit 0)) as target_type,
0 as misplaced,
(select if(coalesce(bool_and(regexp_extract(left(if(typeof(`upper_grp`) like 'timestamp%', get_json_object(to_json(named_struct('v', `upper_grp`), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(`upper_grp` as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) = if(typeof(`upper_grp`) like 'timestamp%', get_json_object(to_json(named_struct('v', `upper_grp`), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(`upper_grp` as string))), true), to_json(collect_set(regexp_extract(left(if(typeof(`upper_grp`) like 'timestamp%', get_json_object(to_json(named_struct('v', `upper_grp`), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(`upper_grp` as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0))), null) from (select `upper_grp` from world.computed_key__stage limit 1000)) as some_keys,
regexp_extract(left(if(typeof(min(`upper_grp`)) like 'timestamp%', get_json_object(to_json(named_struct('v', min(`upper_grp`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(min(`upper_grp`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) as least_1,
regexp_extract(left(if(typeof(max(`upper_grp`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`upper_grp`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`upper_grp`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) as greatest_1,
regexp_extract(left(if(typeof(max(`upper_grp`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`upper_grp`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`upper_grp`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) = if(typeof(max(`upper_grp`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`upper_grp`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`upper_grp`) as string)) as whole_1,
count_if(`upper_grp` is null) as nulls_1,
typeof(any_value(`upper_grp`)) as type_1,
regexp_extract(left(if(typeof(min(`tens`)) like 'timestamp%', get_json_object(to_json(named_struct('v', min(`tens`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(min(`tens`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) as least_2,
regexp_extract(left(if(typeof(max(`tens`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`tens`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`tens`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) as greatest_2,
regexp_extract(left(if(typeof(max(`tens`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`tens`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`tens`) as string)), 100), '^(?:[ -#%-~]|[$](?![{]))*', 0) = if(typeof(max(`tens`)) like 'timestamp%', get_json_object(to_json(named_struct('v', max(`tens`)), map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')), '$.v'), cast(max(`tens`) as string)) as whole_2,
count_if(`tens` is null) as nulls_2,
typeof(any_value(`tens`)) as type_2
from world.computed_key__stage;

describe history world.computed_key limit 20;

select count(*) as present, count_if(_staged._operation = 'insert') as inserted from world.computed_key as _target
inner join world.computed_key__stage as _staged on _target.`upper_grp` <=> _staged.`upper_grp` and _target.`tens` <=> _staged.`tens`
where _target.`upper_grp` between 'A' and 'C' and _target.`upper_grp` in ('A', 'B', 'C') and _target.`tens` between 10 and 90;

insert into world.computed_key with ('userMetadata' = 'headwaters run <run>', 'targetAlias' = '_target',
'replaceOn' = '(_target.`upper_grp`, _target.`tens`) in (`tens` from world.computed_key__stage, select `upper_grp`) and _target.`upper_grp` between \'A\' and \'C\' and _target.`upper_grp` in (\'A\', \'B\', \'C\') and _target.`tens` between 10 and 90')
replace where true
select * except (_operation) from world.computed_key__stage as _staged where _operation <> 'delete';

alter table world.computed_key set tblproperties ('headwaters.inputs' = '{"world_inputs.items": {"version": 4, "at": 0}}', 'headwaters.run' = '{"id": "<run>", "seen": {"version": 0, "at": 0}}', 'headwaters.columns' = '{"world_inputs.items": "6bbb89f7ad97bd20ae1e52c07339ce88"}', 'headwaters.pending' = 'null', 'headwaters.layout' = '{"seen": {"version": 0, "at": 0}, "layout": [[], [], null]}', 'headwaters.proof' = '{"keys": {}, "rules": "12"}');

drop table if exists world.computed_key__stage;
