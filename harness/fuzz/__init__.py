"""Fuzz any parser of model replies, and the other borders of an agent.

`strategies` gives malformed replies whose truth is known; `agentrig fuzz` runs them by the
hundred thousand against a target in worker processes. See docs/fuzzing.md.
"""

from harness.fuzz.cases import CaseError, check_case, read_cases
from harness.fuzz.examples import FAULTS, Example, Outcome, Tools, Trap, action, final, matches
from harness.fuzz.generate import Plan
from harness.fuzz.noise import NoReplies, Seed, read_seeds
from harness.fuzz.operators import OPERATORS, Operator
from harness.fuzz.oracles import Examined, Fault, examine
from harness.fuzz.targets import Target, TargetError, from_langchain, from_llamaindex, load_target

__all__ = [
    "FAULTS",
    "OPERATORS",
    "CaseError",
    "Examined",
    "Example",
    "Fault",
    "NoReplies",
    "Operator",
    "Outcome",
    "Plan",
    "Seed",
    "Target",
    "TargetError",
    "Tools",
    "Trap",
    "action",
    "check_case",
    "examine",
    "final",
    "from_langchain",
    "from_llamaindex",
    "load_target",
    "matches",
    "read_cases",
    "read_seeds",
]
