"""The planner: TDengine's SELECT becomes Spark SQL, for one trigger or for a whole set of them."""

from millrace_core.plan.model import Bound, OutputPlan, Plan, SourceUse
from millrace_core.plan.query import PASSES, plan_query
from millrace_core.plan.streams.output import OutputPlaces, plan_output
from millrace_core.plan.streams.stream import (
    allowed_placeholders,
    grouping_types,
    plan_stream,
    trigger_relation,
    trows_condition,
)
from millrace_core.plan.system.streams import News
from millrace_core.plan.system.tables import SYSTEM_TABLES, system_rows

__all__ = [
    "PASSES", "SYSTEM_TABLES", "Bound", "News", "OutputPlaces", "OutputPlan", "Plan", "SourceUse",
    "allowed_placeholders", "grouping_types", "plan_output", "plan_query", "plan_stream", "system_rows",
    "trigger_relation", "trows_condition",
]  # fmt: skip
