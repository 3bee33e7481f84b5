"""The composition root: the one place that knows the concrete classes, and the only one with imports inside functions
(the screen must paint before openai has been imported)."""
