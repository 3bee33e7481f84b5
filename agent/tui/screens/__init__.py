"""Screens beside the conversation."""
