"""What an operator is: one for each row of the taxonomy of malformed replies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from harness.fuzz.drafts import Draft

Intent = Literal["call", "answer", "any"]


@dataclass(frozen=True, slots=True)
class Operator:
    """A way in which replies go wrong.

    Attributes:
        code: the row of the taxonomy.
        name: what it does, in a few words.
        apply: changes a draft, its truth included.
        on: the notations it can happen in.
        intent: what the reply must be meant as.
        touches: aspects it changes; two operators on the same aspect are not combined.
        uses: aspects that another operator must leave alone.
        needs: what the tool must have: `string`, `number`, `lone_text` (one required
            parameter, a free string), `optional` (nothing required).
        plain: values keep to letters and digits, since others would be ambiguous.
        alone: never combined.
    """

    code: str
    name: str
    apply: Callable[[Draft], None]
    on: frozenset[str]
    intent: Intent
    touches: frozenset[str]
    uses: frozenset[str]
    needs: frozenset[str]
    plain: bool
    alone: bool

    def fits(self, other: Operator) -> bool:
        """Whether the two can be combined."""
        return not (
            self.alone
            or other.alone
            or self.touches & (other.touches | other.uses)
            or self.uses & other.touches
            or not self.on & other.on
            or {self.intent, other.intent} == {"call", "answer"}
        )


def operator(
    code: str,
    name: str,
    *,
    on: frozenset[str],
    touches: str,
    uses: str = "",
    intent: Intent = "call",
    needs: str = "",
    plain: bool = False,
    alone: bool = False,
) -> Callable[[Callable[[Draft], None]], Operator]:
    """Make the function below an operator; `touches`, `uses` and `needs` are lists of words."""

    def make(apply: Callable[[Draft], None]) -> Operator:
        return Operator(
            code=code,
            name=name,
            apply=apply,
            on=on,
            intent=intent,
            touches=frozenset(touches.split()),
            uses=frozenset(uses.split()),
            needs=frozenset(needs.split()),
            plain=plain,
            alone=alone,
        )

    return make
