"""The generator as Hypothesis strategies: the same operators, with shrinking.

from hypothesis import given
from harness.fuzz import strategies as fuzz

@given(fuzz.examples(operators=["J4", "M1"]))
def test_my_parser(example):
    outcome = my_parser(example.text, example.tools)
    assert outcome in example.accept or outcome["kind"] == "error"
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hypothesis import strategies as st

from agent_core.messages import JsonObject, JsonValue, Language
from harness.fuzz import noise as pieces
from harness.fuzz.drafts import NOTATIONS
from harness.fuzz.examples import Example, Outcome, Tools, action, final
from harness.fuzz.generate import Plan
from harness.fuzz.noise import Seed
from harness.fuzz.operators import OPERATORS
from harness.fuzz.values import TOOLS, value_for, words

_RANDOMS = st.randoms(use_true_random=False)


def examples(
    operators: Collection[str] = tuple(OPERATORS),
    *,
    notations: Collection[str] = tuple(sorted(NOTATIONS)),
    languages: Sequence[Language] = ("en", "zh"),
    tools: Tools | None = None,
    most: int = 3,
) -> st.SearchStrategy[Example]:
    """Malformed replies with their truth.

    Args:
        operators: codes, such as `"J4"`; each example has one of them, and up to `most`.
        notations, languages: which ones to write.
        tools: your tools with their schemas; invented ones unless given.
        most: operators in one reply at most.
    """
    plan = Plan(
        operators=tuple(operators),
        notations=tuple(notations),
        languages=tuple(languages),
        tools=tools,
        most=most,
    )
    kinds = st.sampled_from([each for each in plan.kinds if each in OPERATORS])
    return st.builds(plan.draw, _RANDOMS, kinds)


def clean_examples(
    *,
    notations: Collection[str] = tuple(sorted(NOTATIONS)),
    languages: Sequence[Language] = ("en", "zh"),
    tools: Tools | None = None,
) -> st.SearchStrategy[Example]:
    """Well-formed replies with their truth."""
    plan = Plan(notations=tuple(notations), languages=tuple(languages), tools=tools)
    return _RANDOMS.map(lambda rng: plan.draw(rng, "clean"))


def arguments(schema: JsonObject, *, language: Language = "en") -> st.SearchStrategy[JsonValue]:
    """Values that fit a JSON Schema, with the strings that parsers stumble over."""
    return _RANDOMS.map(lambda rng: value_for(rng, schema, language=language))


def intentions(
    tools: Tools | None = None, *, language: Language = "en"
) -> st.SearchStrategy[Outcome]:
    """What a reply may mean: a call to one of the tools with fitting arguments, or an answer."""
    known = tools or TOOLS[language]
    calls = st.sampled_from(list(known)).flatmap(
        lambda name: arguments(known[name], language=language).map(lambda each: action(name, each))
    )
    return calls | _RANDOMS.map(lambda rng: final(words(rng, language)))


def noise(tools: Tools | None = None) -> st.SearchStrategy[str]:
    """Heaps of labels, brackets, tags, tool names and odd characters."""
    known = tools or TOOLS["en"]
    return _RANDOMS.map(lambda rng: pieces.noise(rng, known))


def mutations(seeds: Sequence[Seed]) -> st.SearchStrategy[str]:
    """Real replies (`read_seeds`) with a few pieces taken out, doubled, moved or put in."""
    return st.builds(
        lambda rng, seed: pieces.mutate(rng, seed.text), _RANDOMS, st.sampled_from(seeds)
    )
