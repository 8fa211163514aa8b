select `id` from (
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

insert into world.latest with ('userMetadata' = 'headwaters run <run>', 'targetAlias' = '_target',
'replaceOn' = '_target.`id` = _staged.`id` and _target.`id` between 1 and 7 and _target.`id` in (1, 7)')
replace where true
select * except (_operation) from global_temp.world__latest__stage as _staged where _operation <> 'delete';

alter table world.latest set tblproperties ('headwaters.inputs' = '{"world_inputs.events": {"version": 2, "at": 0}}', 'headwaters.run' = '{"id": "<run>", "seen": {"version": 0, "at": 0}}', 'headwaters.columns' = '{"world_inputs.events": "2cd66c3b452934a6307a9ec3c60ad009"}', 'headwaters.pending' = 'null', 'headwaters.layout' = '{"seen": {"version": 0, "at": 0}, "layout": [[], [], null]}', 'headwaters.proof' = '{"keys": {}, "rules": "14"}');
