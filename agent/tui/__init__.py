"""The screen. Sees the vocabulary and the core, never an adapter."""
