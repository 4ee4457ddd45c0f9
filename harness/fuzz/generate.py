"""Make examples: choose operators, mean something, write it down, know the truth.

One generator serves both ways of running. It draws every choice from a `random.Random`: one
seeded by run and number in bulk runs, Hypothesis's own (`st.randoms`) in strategies, so that
the same operators shrink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random

from agent_core.messages import JsonObject, Language
from harness.fuzz.drafts import (
    FAMILIES,
    LABELS,
    NOTATIONS,
    PROTOCOLS,
    REACT,
    Draft,
    free_keys,
)
from harness.fuzz.examples import Example, Tools
from harness.fuzz.noise import Seed, mutate, noise
from harness.fuzz.operators import OPERATORS, Operator
from harness.fuzz.values import TOOLS, value_for, words

UNJUDGED = ("noise", "real", "mutated")
"""Kinds of examples without a truth: they must do no harm."""


@dataclass(frozen=True)
class Plan:
    """What examples are made of.

    Attributes:
        operators: codes of operators; all unless given.
        notations, languages: which ones; all unless given.
        tools: tools to be called; invented ones unless given.
        seeds: real replies (`harness.fuzz.noise.read_seeds`), used as they are and mutated.
        most: operators in one reply at most.
        finish_reasons: whether the target is told `finish_reason`; without, it is unknown.
    """

    operators: tuple[str, ...] = tuple(OPERATORS)
    notations: tuple[str, ...] = tuple(sorted(NOTATIONS))
    languages: tuple[Language, ...] = ("en", "zh")
    tools: Tools | None = None
    seeds: tuple[Seed, ...] = ()
    most: int = 3
    finish_reasons: bool = True
    kinds: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        wrong = [each for each in self.operators if each not in OPERATORS]
        wrong += [each for each in self.notations if each not in NOTATIONS]
        wrong += [each for each in self.languages if each not in FAMILIES]
        if wrong:
            raise ValueError(
                f"unknown {wrong[0]!r}; operators are {', '.join(OPERATORS)}; notations are "
                f"{', '.join(sorted(NOTATIONS))}; languages are en, zh"
            )
        usable = tuple(each for each in self.operators if self._notations(OPERATORS[each]))
        everything = set(self.operators) == set(OPERATORS)
        rest = ("clean", "noise", "mutated", *(("real",) if self.seeds else ()))
        object.__setattr__(self, "kinds", (*usable, *rest) if everything else usable)

    def _notations(self, operator: Operator) -> list[str]:
        """Where an operator can happen: some tool has what it needs, in every language."""
        return [
            each
            for each in self.notations
            if each in operator.on
            and all(self._able(one, _needs((operator,), each)) for one in self.languages)
        ]

    @cached_property
    def _able_tools(self) -> dict[tuple[Language, frozenset[str]], list[str]]:
        return {}

    @cached_property
    def partners(self) -> dict[tuple[str, str], list[Operator]]:
        """For an operator in a notation, the operators it can be combined with."""
        return {
            (code, notation): [
                other
                for other in map(OPERATORS.__getitem__, self.operators)
                if notation in other.on and OPERATORS[code].fits(other)
            ]
            for code in self.operators
            for notation in self._notations(OPERATORS[code])
        }

    def number(self, seed: int, index: int) -> Example:
        """The example with this number; kinds take turns, so that each gets its share."""
        rng = Random(f"{seed}/{index}")  # noqa: S311 - reproducible, not secret
        return self.draw(rng, self.kinds[index % len(self.kinds)])

    def draw(self, rng: Random, kind: str | None = None) -> Example:
        """An example of a kind: an operator's code, `clean`, or one of `UNJUDGED`."""
        kind = kind or rng.choice(self.kinds)
        language = rng.choice(self.languages)
        if kind == "noise":
            tools = _tool_set(rng, self._pool(language), None)
            return Example(noise(rng, tools), tools, language, labels=("noise",), prefix_calls=None)
        if kind in UNJUDGED:
            return self._real(rng, kind, language)
        operators, notation = self._operators(rng, kind, language)
        return self.make(rng, operators, notation, language)

    def _able(self, language: Language, needs: frozenset[str]) -> list[str]:
        """The tools that have what operators need."""
        known = self._able_tools
        if (language, needs) not in known:
            pool = self._pool(language)
            known[language, needs] = [name for name in pool if _has(name, pool[name], needs)]
        return known[language, needs]

    def _pool(self, language: Language) -> Tools:
        return self.tools or TOOLS[language]

    def _operators(self, rng: Random, kind: str, language: Language) -> tuple[list[Operator], str]:
        if kind == "clean":
            return [], rng.choice(self.notations)
        first = OPERATORS[kind]
        notation = rng.choice(self._notations(first))
        chosen = [first]
        for _ in range(rng.choice((0, 0, 0, 1, 1, self.most - 1)) if self.most > 1 else 0):
            partners = [
                each
                for each in self.partners[kind, notation]
                if all(each.fits(other) for other in chosen[1:])
                and self._able(language, _needs((*chosen, each), notation))
            ]
            if partners:
                chosen.append(rng.choice(partners))
        chosen.sort(key=lambda each: _PLACES[each.code])
        return chosen, notation

    def make(
        self, rng: Random, operators: Sequence[Operator], notation: str, language: Language
    ) -> Example:
        """An example with these operators, in their order."""
        intents = {each.intent for each in operators} - {"any"}
        if intents:
            intent = intents.pop()
        else:
            answers = notation in REACT and not rng.randrange(3)
            intent = "answer" if answers else "call"
        needs = _needs(operators, notation)
        plain = any(each.plain for each in operators)
        draft = self._draft(rng, notation, language, intent=intent, needs=needs, plain=plain)
        if self.finish_reasons:
            draft.finish_reason = rng.choice((None, "stop", None, "stop", "stop", "length"))
        for each in operators:
            each.apply(draft)
        if not self.finish_reasons:
            draft.finish_reason = None
        protocol = rng.choice((None, PROTOCOLS.get(notation, "native")))
        labels = tuple(each.code for each in operators) or ("clean",)
        return draft.example(labels, protocol)

    def _draft(
        self,
        rng: Random,
        notation: str,
        language: Language,
        *,
        intent: str,
        needs: frozenset[str],
        plain: bool,
    ) -> Draft:
        pool = self._pool(language)
        name = rng.choice(self._able(language, needs))
        tools = _tool_set(rng, pool, name)
        labels = dict(zip(LABELS, rng.choice(FAMILIES[language]), strict=True))
        draft = Draft(rng, language, notation, tools, labels, _thought(rng, language))
        draft.name = draft.name_written = name
        if intent == "answer":
            draft.answer = _answer(rng, language)
            return draft
        arguments = value_for(rng, pool[name], language=language, plain=plain)
        for need in sorted(needs & {"string", "number"}):  # the same under every hash seed
            free = free_keys(pool[name], need)
            if free and not any(key in arguments for key in free):
                arguments[free[0]] = words(rng, language) if need == "string" else 3
        draft.arguments, draft.written = arguments, dict(arguments)
        if notation == "react-fence":
            draft.name_key, draft.args_key = "action", "action_input"
        elif notation == "react-json":
            draft.args_key = rng.choice(("parameters", "arguments"))
        return draft

    def _real(self, rng: Random, kind: str, language: Language) -> Example:
        if self.seeds:
            seed = rng.choice(self.seeds)
            text, tools = seed.text, seed.tools
        else:
            texts = [each for each in self.notations if each != "native"] or ["json"]
            clean = self.make(rng, [], rng.choice(texts), language)
            text, tools = clean.text, clean.tools
        if kind == "mutated":
            text = mutate(rng, text)
        return Example(text, tools, language, labels=(kind,), prefix_calls=None)


_PLACES = {code: place for place, code in enumerate(OPERATORS)}
_OTHERS = 5


def _needs(operators: Sequence[Operator], notation: str) -> frozenset[str]:
    needs = {need for each in operators for need in each.needs}
    return frozenset(needs | {"identifier"} if notation == "pythonic" else needs)


def _has(name: str, schema: JsonObject, needs: frozenset[str]) -> bool:
    return all((
        "string" not in needs or free_keys(schema, "string"),
        "number" not in needs or free_keys(schema, "number"),
        "optional" not in needs or not schema.get("required"),
        "identifier" not in needs or name.isidentifier(),
    ))  # fmt: skip


def _tool_set(rng: Random, pool: Tools, name: str | None) -> Tools:
    """The tool and some others; another one at least, so that there is a wrong one to call."""
    others = [each for each in pool if each != name] or ["erase_log"]
    chosen = rng.sample(others, min(len(others), rng.randint(1, _OTHERS)))
    if name is not None:
        chosen.insert(rng.randint(0, len(chosen)), name)
    return {each: pool.get(each) or TOOLS["en"][each] for each in chosen}


def _thought(rng: Random, language: Language) -> str:
    text = words(rng, language)
    why = (" because it is late", "，因为已经晚了")[language == "zh"]
    return rng.choice((text, text + why, "", f"{text}\n{text}", f"({text}) {{x}} 1. [y]"))


def _answer(rng: Random, language: Language) -> str:
    text = words(rng, language)
    return rng.choice((
        text, f"{text}\n{text}", "42", f"{text}: 1) a; 2) {{b}}", f"1. {text}\n2. {text}",
    ))  # fmt: skip
