"""The outside world: plug-ins for maketables and marginaleffects. Nothing here is required."""

from __future__ import annotations

__all__: list[str] = []
