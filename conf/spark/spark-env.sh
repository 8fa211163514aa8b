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
