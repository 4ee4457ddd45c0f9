"""The list of planted defects fits the agent of today."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from benchmarks.planted_defects import DEFECTS, ROOT, Defect, plant


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda each: each.about)
def test_each_defect_still_has_its_place(tmp_path: Path, defect: Defect) -> None:
    """Its line stands in the code once, and what is planted there is Python."""
    (tmp_path / defect.file).parent.mkdir(exist_ok=True)
    shutil.copy(ROOT / "agent_core" / defect.file, tmp_path / defect.file)
    before = (tmp_path / defect.file).read_text(encoding="utf-8")
    plant(defect, tmp_path)
    after = (tmp_path / defect.file).read_text(encoding="utf-8")
    assert after != before
    ast.parse(after)
