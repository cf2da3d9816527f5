"""Why rows fall short, by row; kept by hand, shown in the report beside the row's ratios."""

from __future__ import annotations

CAUSES: dict[str, str] = {}
