"""What the two services that use Spark share: where it runs, how its session begins, which version it is."""

from millrace_spark.place import SparkSettings
from millrace_spark.session import JVM, SparkStart, spark_conf
from millrace_spark.version import require_spark

__all__ = ["JVM", "SparkSettings", "SparkStart", "require_spark", "spark_conf"]
