alter table world.computed_key set tblproperties ('headwaters.pending' = '{"id": "<run>", "seen": {"version": 0, "at": 0}, "inputs": {"world_inputs.items": {"version": 4, "at": 0}}}');

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

select count(*) as present, count_if(_staged._operation = 'insert') as inserted from world.computed_key as _target
inner join global_temp.world__computed_key__stage as _staged on _target.`upper_grp` <=> _staged.`upper_grp` and _target.`tens` <=> _staged.`tens`
where _target.`upper_grp` between 'A' and 'C' and _target.`upper_grp` in ('A', 'B', 'C') and _target.`tens` between 10 and 90;

insert into world.computed_key with ('userMetadata' = 'headwaters run <run>', 'targetAlias' = '_target',
'replaceOn' = '(_target.`upper_grp`, _target.`tens`) in (`tens` from global_temp.world__computed_key__stage, select `upper_grp`) and _target.`upper_grp` between \'A\' and \'C\' and _target.`upper_grp` in (\'A\', \'B\', \'C\') and _target.`tens` between 10 and 90')
replace where true
select * except (_operation) from global_temp.world__computed_key__stage as _staged where _operation <> 'delete';

alter table world.computed_key set tblproperties ('headwaters.inputs' = '{"world_inputs.items": {"version": 4, "at": 0}}', 'headwaters.run' = '{"id": "<run>", "seen": {"version": 0, "at": 0}}', 'headwaters.columns' = '{"world_inputs.items": "6bbb89f7ad97bd20ae1e52c07339ce88"}', 'headwaters.pending' = 'null', 'headwaters.layout' = '{"seen": {"version": 0, "at": 0}, "layout": [[], [], null]}', 'headwaters.proof' = '{"keys": {}, "rules": "14"}');
