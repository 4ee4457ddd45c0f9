"""From a model's reply to a decision: tolerant where that is safe, a typed error elsewhere."""

from agent_core.parsing.hints import hint_for
from agent_core.parsing.json_document import JsonDamage, TolerantJson, loads_tolerant
from agent_core.parsing.native import StandardParser, parse_native
from agent_core.parsing.reply import parse_reply
from agent_core.parsing.scanner import ReplyScanner

__all__ = [
    "JsonDamage",
    "ReplyScanner",
    "StandardParser",
    "TolerantJson",
    "hint_for",
    "loads_tolerant",
    "parse_native",
    "parse_reply",
]
