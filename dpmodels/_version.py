"""The version, alone in a module so that packaging can read it without importing numpy."""

__version__ = "0.3.0.dev0"
