alter table world.sums set tblproperties ('headwaters.pending' = '{"id": "<run>", "seen": {"version": 0, "at": 0}, "inputs": {"world_inputs.events": {"version": 2, "at": 0}}}');

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

insert into world.sums with ('userMetadata' = 'headwaters run <run>', 'targetAlias' = '_target',
'replaceOn' = '_target.`id` = _staged.`id` and _target.`id` between 1 and 7 and _target.`id` in (1, 7)')
replace where true
select * except (_operation) from global_temp.world__sums__stage as _staged where _operation <> 'delete';

alter table world.sums set tblproperties ('headwaters.inputs' = '{"world_inputs.events": {"version": 2, "at": 0}}', 'headwaters.run' = '{"id": "<run>", "seen": {"version": 0, "at": 0}}', 'headwaters.columns' = '{"world_inputs.events": "2cd66c3b452934a6307a9ec3c60ad009"}', 'headwaters.pending' = 'null', 'headwaters.layout' = '{"seen": {"version": 0, "at": 0}, "layout": [[], [], null]}', 'headwaters.proof' = '{"keys": {}, "rules": "14"}');
