"""The heart of the agent: turns history, tools and a model into events. Knows only the vocabulary."""
