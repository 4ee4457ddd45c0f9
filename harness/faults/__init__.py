"""Faults on purpose: a server that misbehaves as it is told."""

from harness.faults.response import Response
from harness.faults.server import FaultServer, Received

__all__ = ["FaultServer", "Received", "Response"]
