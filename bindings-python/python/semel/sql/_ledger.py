"""Balances that move by entries, each posted once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from .._errors import InvalidInput
from ._connection import Connection, Dialect, name
from ._insert import insert

_MAX = 2**63 - 1


@dataclass(frozen=True)
class Posted:
    """What posting an entry came to."""

    #: "posted"; "already_posted", with this delta; "mismatch", with another one; "insufficient": nothing was changed.
    answer: Literal["posted", "already_posted", "mismatch", "insufficient"]
    #: The balance of the account as it is now.
    balance: int


class Ledger:
    """Accounts and their entries, in ``semel_ledger_entries`` and ``semel_ledger_balances`` of your database.

    Amounts are integers of 64 bits: cents, not euros.
    """

    def __init__(self, table: str = "semel_ledger") -> None:
        self.entries, self.balances = name(f"{table}_entries"), name(f"{table}_balances")

    def schema(self, dialect: Dialect = "postgresql") -> str:
        """The statements that make the tables, with a semicolon after each."""
        return ";\n".join((*self._statements(), ""))

    def _statements(self) -> tuple[str, str]:
        return (
            f"CREATE TABLE IF NOT EXISTS {self.entries} "
            "(account TEXT NOT NULL, biz_no TEXT NOT NULL, delta BIGINT NOT NULL, PRIMARY KEY (account, biz_no))",
            f"CREATE TABLE IF NOT EXISTS {self.balances} (account TEXT NOT NULL PRIMARY KEY, balance BIGINT NOT NULL)",
        )

    def create(self, connection: Any) -> None:
        """Makes the tables if there are none."""
        made = Connection(connection)
        for statement in self._statements():
            made.execute(statement)

    def post(self, connection: Any, account: Any, biz_no: Any, delta: int, floor: int | None = None) -> Posted:
        """Adds ``delta`` to the balance once for each business number, unless it would come below ``floor``.

        Inside the open transaction; commit it. Raises InvalidInput for what is no integer of 64 bits, or would become none.
        """
        for word, number in (("delta", delta), ("floor", 0 if floor is None else floor)):
            if not isinstance(number, int) or isinstance(number, bool) or abs(number) > _MAX:
                raise InvalidInput(f"{word} is {number!r}; give an integer of at most 64 bits")
        made, who = Connection(connection), str(account)
        try:
            with made.savepoint():
                entry = {"account": who, "biz_no": str(biz_no), "delta": delta}
                answer = insert(made, self.entries, entry, ["account", "biz_no"])
                if answer != "inserted":
                    return Posted("already_posted" if answer == "exists" else "mismatch", self._balance(made, who))
                made.execute(
                    f"INSERT INTO {self.balances} (account, balance) VALUES (?, 0) ON CONFLICT (account) DO NOTHING", (who,)
                )
                self._move(made, who, delta, floor)
                return Posted("posted", self._balance(made, who))
        except _Insufficient:
            return Posted("insufficient", self._balance(made, who))

    def _move(self, made: Connection, who: str, delta: int, floor: int | None) -> None:
        # The row is locked by the write, so that the balance that is tested is the one that is written.
        made.execute(f"UPDATE {self.balances} SET balance = balance WHERE account = ?", (who,))
        balance = self._balance(made, who) + delta
        if abs(balance) > _MAX:
            raise InvalidInput(f"the balance of {who!r} would be {balance}, which has more than 64 bits")
        if floor is not None and delta < 0 and balance < floor:
            raise _Insufficient
        made.execute(f"UPDATE {self.balances} SET balance = ? WHERE account = ?", (balance, who))

    def _balance(self, made: Connection, who: str) -> int:
        _, rows = made.execute(f"SELECT balance FROM {self.balances} WHERE account = ?", (who,))
        return int(rows[0][0]) if rows else 0

    def balance(self, connection: Any, account: Any) -> int:
        """The balance of an account; 0 for one without entries."""
        return self._balance(Connection(connection), str(account))


class _Insufficient(Exception):
    """The entry is taken back."""
