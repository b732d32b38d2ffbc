"""``manage.py semel_sweep``: frees what is forgotten."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from ... import store


class Command(BaseCommand):  # type: ignore[misc]
    help = "Frees records whose time is over in the store of settings.SEMEL; a store does so by itself as well."

    def handle(self, *args: Any, **options: Any) -> None:
        """Says how many."""
        self.stdout.write(f"{store().sweep()} records were freed")
