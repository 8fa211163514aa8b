alter table world.linear set tblproperties ('headwaters.pending' = '{"id": "<run>", "seen": {"version": 0, "at": 0}, "inputs": {"world_inputs.items": {"version": 4, "at": 0}, "world_inputs.rates": {"version": 1, "at": 0}}}');

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

select count(*) as present, count_if(_staged._operation = 'insert') as inserted from world.linear as _target
inner join global_temp.world__linear__stage as _staged on _target.`id` <=> _staged.`id`
where _target.`id` between 1 and 9 and _target.`id` in (1, 9);

insert into world.linear with ('userMetadata' = 'headwaters run <run>', 'targetAlias' = '_target',
'replaceOn' = '_target.`id` = _staged.`id` and _target.`id` between 1 and 9 and _target.`id` in (1, 9) and (_target.`grp` between \'a\' and \'a\' or _target.`grp` is null)')
replace where true
select * except (_operation, _before_1) from global_temp.world__linear__stage as _staged where _operation <> 'delete';

alter table world.linear set tblproperties ('headwaters.inputs' = '{"world_inputs.items": {"version": 4, "at": 0}, "world_inputs.rates": {"version": 1, "at": 0}}', 'headwaters.run' = '{"id": "<run>", "seen": {"version": 0, "at": 0}}', 'headwaters.columns' = '{"world_inputs.items": "6bbb89f7ad97bd20ae1e52c07339ce88", "world_inputs.rates": "0c2a03d774b90dec02655248c5e767b1"}', 'headwaters.pending' = 'null', 'headwaters.layout' = '{"seen": {"version": 0, "at": 0}, "layout": [[], ["grp"], null]}', 'headwaters.proof' = '{"keys": {}, "rules": "14"}');
