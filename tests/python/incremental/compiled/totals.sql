select `grp` from (
select distinct * from (
select _rows.`grp` as `grp` from (select * from table_changes('world_inputs.items', 2, 4) where if(contains(cast(`grp` as string), '�'), raise_error('HW_NOT_UTF8'), true)) as _rows
)
);

alter table world.totals set tblproperties ('headwaters.pending' = '{"id": "<run>", "seen": {"version": 0, "at": 0}, "inputs": {"world_inputs.items": {"version": 4, "at": 0}}}');

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

insert into world.totals with ('userMetadata' = 'headwaters run <run>', 'targetAlias' = '_target',
'replaceOn' = '(_target.`grp`, _target.`is_large`) in (`is_large` from global_temp.world__totals__stage, select `grp`) and _target.`grp` between \'a\' and \'c\' and _target.`grp` in (\'a\', \'b\', \'c\')')
replace where true
select * except (_operation) from global_temp.world__totals__stage as _staged where _operation <> 'delete';

alter table world.totals set tblproperties ('headwaters.inputs' = '{"world_inputs.items": {"version": 4, "at": 0}}', 'headwaters.run' = '{"id": "<run>", "seen": {"version": 0, "at": 0}}', 'headwaters.columns' = '{"world_inputs.items": "6bbb89f7ad97bd20ae1e52c07339ce88"}', 'headwaters.pending' = 'null', 'headwaters.layout' = '{"seen": {"version": 0, "at": 0}, "layout": [[], [], null]}', 'headwaters.proof' = '{"keys": {}, "rules": "14"}');
