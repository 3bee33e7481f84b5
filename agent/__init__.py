"""dflash-agent: a terminal coding agent on top of local DFlash inference."""

__version__ = "0.1.0"
