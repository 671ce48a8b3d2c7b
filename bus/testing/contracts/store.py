"""The contract of every store. Subclass ``StoreContract``, give a ``store`` fixture, and pytest checks yours.

The fixture yields a new, empty store. The parts are in ``store_traces``, ``store_conditions``,
``store_cancellation``, ``store_compensations``, ``store_discards``, ``store_ordering``, ``store_documents``,
``store_drops``, ``store_failures`` and ``store_rollups``, for an adapter that has only one of them.
"""

from __future__ import annotations

from bus.testing.contracts.store_cancellation import CancellationContract
from bus.testing.contracts.store_compensations import CompensationContract
from bus.testing.contracts.store_conditions import ConditionContract
from bus.testing.contracts.store_discards import DiscardContract
from bus.testing.contracts.store_documents import DocumentContract, WrittenDocumentContract
from bus.testing.contracts.store_drops import DropContract
from bus.testing.contracts.store_failures import FailureContract
from bus.testing.contracts.store_ordering import OrderingContract
from bus.testing.contracts.store_rollups import RollupContract
from bus.testing.contracts.store_traces import SearchContract, WriteContract


class StoreContract(
    WriteContract,
    SearchContract,
    ConditionContract,
    FailureContract,
    DropContract,
    CompensationContract,
    DiscardContract,
    CancellationContract,
    OrderingContract,
    DocumentContract,
    WrittenDocumentContract,
    RollupContract,
):
    """The behaviour of ``bus.ports.store.Store``, without restarts."""
