"""The session file, record, replay, and the report of what changed."""
