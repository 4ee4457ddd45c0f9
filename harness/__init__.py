"""Watches, records, replays, tests and traces an agent, from outside."""
