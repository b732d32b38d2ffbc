"""``manage.py semel_unresolved``: operations that somebody must resolve."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand

from ... import store


class Command(BaseCommand):  # type: ignore[misc]
    help = "Lists operations in doubt in the store of settings.SEMEL, longest first. Exits with 1 when there are some."

    def add_arguments(self, parser: Any) -> None:
        """How many at most."""
        parser.add_argument("--limit", type=int, default=1000, help="how many at most (1000)")

    def handle(self, *args: Any, limit: int = 1000, **options: Any) -> None:
        """One line for each: since when, scope, operation, id, fence, and what ended the attempt."""
        found = store().unresolved(limit)
        for record in found:
            scope = "-" if record.scope is None else record.scope
            since = record.in_doubt_since.isoformat() if record.in_doubt_since else "-"
            self.stdout.write("\t".join((since, scope, record.operation, record.id, str(record.fence), record.doubt or "")))
        if found:
            sys.exit(1)
