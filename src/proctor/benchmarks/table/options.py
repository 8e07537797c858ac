"""The options of benchmark `table`: `-p benchmark.KEY=VALUE`."""

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Columns(BaseModel):
    """Which column holds what. `-p benchmark.columns.input=question`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = "id"
    input: str = "input"
    target: str = "target"
    reference: str = "reference"
    category: str = "category"
    metadata: str = "metadata"
    files: str = "files"


Tolerance = Annotated[Decimal, Field(ge=0, le=Decimal("1e9"), allow_inf_nan=False)]


class TableOptions(BaseModel):
    """Options of `table`. An option of one scorer is refused beside another scorer.

    - `scorer`: `exact`, `includes`, `regex`, `numeric`, `choice`, `json` or
      `python:file.py:function`. Default `exact`.
    - `ignore_case` (exact, includes, regex): compare without regard to case. Default false.
    - `pattern` (regex): one regular expression for all rows, instead of the target's. Default: the
      row's target is the expression.
    - `tolerance`, `relative_tolerance` (numeric): how far the answer may be from the target,
      absolutely and as a part of the target; the larger of both counts. Default 0.
    - `choices` (choice): the letters that are choices. Default A to Z.
    - `subset` (json): the answer's objects may have keys that the target's lack. Default false.
    - `metric_kind` (python): `binary` (metric `correct`) or `scalar` (metric `score`, from `low`
      to `high`, default 0 to 1).
    - `time_limit_s` (python, regex): seconds for one grading. Default 30 and 2.
    - `memory_limit_mb` (python): address space of one grading, in MiB. Default 2048.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    scorer: str = "exact"
    columns: Columns = Columns()
    ignore_case: bool = False
    pattern: str = ""
    tolerance: Tolerance = Decimal(0)
    relative_tolerance: Tolerance = Decimal(0)
    choices: str = ""
    subset: bool = False
    metric_kind: Literal["binary", "scalar"] = "binary"
    low: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    high: Annotated[float, Field(allow_inf_nan=False)] = 1.0
    time_limit_s: Annotated[float, Field(gt=0, le=86_400)] | None = None
    memory_limit_mb: Annotated[int, Field(ge=64, le=1_048_576)] = 2048

    @model_validator(mode="after")
    def _range_is_not_empty(self) -> "TableOptions":
        if not self.low < self.high:
            raise ValueError(f"the range low={self.low:g} to high={self.high:g} is empty")
        if self.metric_kind == "binary" and {"low", "high"} & self.model_fields_set:
            raise ValueError("low and high belong to metric_kind=scalar")
        return self
