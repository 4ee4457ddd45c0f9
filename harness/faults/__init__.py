"""Faults on purpose: a server that misbehaves as it is told."""

from harness.faults.server import FaultServer, Received, Response

__all__ = ["FaultServer", "Received", "Response"]
