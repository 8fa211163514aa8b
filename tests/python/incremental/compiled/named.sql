select `id` from (
select distinct * from (
select _rows.`id` as `id` from table_changes('world_inputs.items', 2, 4) as _rows
union all
select _rows.`id` as `id` from (select /*+ broadcast(_rows) */ _via.* from world_inputs.items version as of 4 as _via
left semi join (select * from table_changes('world_inputs.people', 2, 2) where if(contains(cast(`grp` as string), '�'), raise_error('HW_NOT_UTF8'), true)) as _rows on _rows.`grp` <=> _via.`grp`) as _rows
)
);

alter table world.named set tblproperties ('headwaters.pending' = '{"id": "<run>", "seen": {"version": 0, "at": 0}, "inputs": {"world_inputs.items": {"version": 4, "at": 0}, "world_inputs.people": {"version": 2, "at": 0}}}');

with _touched as (
select * from values (1), (3), (9), (cast(null as int)) as _listed (`id`)
),
_recomputed as (select struct(*) as _row, `id` from (
select _model.* from (
with items as (
    select * from (select _input.* from world_inputs.items version as of 4 as _input where (_input.`id` between 1 and 9 and _input.`id` in (1, 3, 9) or _input.`id` is null)) as `items`
),
people as (
    select *
    from (select _input.* from world_inputs.people version as of 2 as _input
left semi join (select _input.* from world_inputs.items version as of 4 as _input where (_input.`id` between 1 and 9 and _input.`id` in (1, 3, 9) or _input.`id` is null)) as _via
on _input.`grp` <=> _via.`grp`) as `people`
),
final as (
    select
        items.id,
        items.val,
        people.name
    from items
    left join people
        on items.grp = people.grp
)
select * from final
) as _model left join (select *, true as _is_touched from _touched) as _known on _model.`id` <=> _known.`id`
where if(_is_touched, true, raise_error('world.named has a row of id that comes from no row of an affected() input with that value, so no change of theirs leads to it. Select id from them as it is, and mark a table that all keys come from with affected(), not lookup().'))
)),
_present as (select struct(_target.*) as _row, _target.`id` from world.named as _target
where (_target.`id` between 1 and 9 and _target.`id` in (1, 3, 9) or _target.`id` is null))
select inline(array(coalesce(_new._row, _old._row))), case when _old._row is null then 'insert' when _new._row is null then 'delete' else 'update' end as _operation
from (select *, count(*) over (partition by `id`) as _copies from _recomputed) as _new full outer join _present as _old on _new.`id` <=> _old.`id`
where not (_new._row <=> _old._row) or _new._copies > 1;

insert into world.named with ('userMetadata' = 'headwaters run <run>', 'targetAlias' = '_target',
'replaceOn' = '(struct(_target.`id`), true) in (select struct(`id`), true from global_temp.world__named__stage) and (_target.`id` between 1 and 9 and _target.`id` in (1, 3, 9) or _target.`id` is null)')
replace where true
select * except (_operation) from global_temp.world__named__stage as _staged where _operation <> 'delete';

alter table world.named set tblproperties ('headwaters.inputs' = '{"world_inputs.items": {"version": 4, "at": 0}, "world_inputs.people": {"version": 2, "at": 0}}', 'headwaters.run' = '{"id": "<run>", "seen": {"version": 0, "at": 0}}', 'headwaters.columns' = '{"world_inputs.items": "6bbb89f7ad97bd20ae1e52c07339ce88", "world_inputs.people": "31bb65f0b3f86873f00e6c111b5d43d5"}', 'headwaters.pending' = 'null', 'headwaters.layout' = '{"seen": {"version": 0, "at": 0}, "layout": [[], [], null]}', 'headwaters.proof' = '{"keys": {}, "rules": "14"}');
