"""Cells of the transcript: pure functions from data and a width to strips."""
