{#- Returns the last `limit` commits of a table, newest first: `Commit`s of scripts/headwaters/tables/commits.py, which has their
    rules. -#}
{% macro hw_describe_history(relation, limit) %}
    {{ return(adapter.commits_now(relation | string, limit)) }}
{% endmacro %}


{#- Returns the newest commit of a Delta table: `version`, and `at`, its time in milliseconds since 1970. The two together identify a state
    of one table: a table that was dropped and created again at the same version has another time. -#}
{% macro hw_newest_commit(relation) %}
    {{ return(hw_describe_history(relation, 1)[0]) }}
{% endmacro %}


{#- Returns the time of a version's commit; none if the history no longer has it. -#}
{% macro hw_time_of_version(relation, version) %}
    {%- for commit in hw_describe_history(relation, 100000) if commit.version == version -%}
        {{ return(commit.at) }}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#- Returns the columns of a table before and after each of some commits, and at further versions: a mapping of versions to types of
    structs. -#}
{% macro hw_columns_around(source, commits, further=[]) %}
    {%- set versions = further | list -%}
    {%- for version in commits -%}{%- do versions.extend([version - 1, version]) -%}{%- endfor -%}
    {%- set columns = {} -%}
    {%- for some in versions | unique | batch(100) -%}
        {%- do columns.update(zip(some, run_query(hw_column_types_sql(source, some)).rows[0].values())) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{% macro hw_column_types_sql(source, versions) -%}
    select
    {%- for version in versions %}
        {{ hw_type_of('select * from ' ~ source ~ ' version as of ' ~ version) }} as columns_{{ loop.index }}
        {{- ',' if not loop.last }}
    {%- endfor -%}
{%- endmacro %}
