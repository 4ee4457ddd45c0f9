"""Measurements on a user's own data."""
