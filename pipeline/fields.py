"""How schemas are written down: a field a line."""

from __future__ import annotations

from pyspark.sql.types import DataType, StructField, StructType


def struct(**fields: DataType) -> StructType:
    """Return a type with these fields, each of which may be null."""
    return StructType([StructField(name, kind) for name, kind in fields.items()])
