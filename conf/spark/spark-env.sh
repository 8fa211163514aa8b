# Sourced by every spark-submit of this environment (`headwaters setup` links this folder to pyspark/conf).
# Java runs behind conf/java/bin/java, which drops --add-modules=jdk.incubator.vector: the JVM answers that
# flag with a warning on every start, and only MLlib would use the module.
if [ -n "${JAVA_HOME:-}" ]; then
    HEADWATERS_JAVA="$JAVA_HOME/bin/java"
else
    HEADWATERS_JAVA="$(command -v java || true)"
fi
export HEADWATERS_JAVA
JAVA_HOME="$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../java" && pwd)"
export JAVA_HOME
# Java 16 and older end in a page about class file versions, and no Java at all in "exec: : not found".
if ! "${HEADWATERS_JAVA:-false}" -version 2>&1 | grep -Eq 'version "(1[7-9]|[2-9][0-9])'; then
    echo "headwaters: [HW_NO_JAVA] no Java 17 or 21 (${HEADWATERS_JAVA:-none on PATH}): install one, or set JAVA_HOME" >&2
    exit 1
fi
