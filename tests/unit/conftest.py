from __future__ import annotations

import pytest
from argon2 import PasswordHasher

from bus.security import passwords


@pytest.fixture
def quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash with little work: what it takes is tested where passwords are."""
    monkeypatch.setattr(passwords, "_HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
