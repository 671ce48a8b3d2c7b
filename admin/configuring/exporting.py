"""The configuration as a set that can be put again: always in the same order, without secrets."""

from __future__ import annotations

from typing import Any

import msgspec

from admin.configuring.planning import clusters_view, rates_view
from admin.models.configuration import DestinationBody, SubscriptionBody
from admin.models.responses.configuration import ConfigurationView
from bus.bootstrap import Context
from bus.security.keys import Action
from bus.security.principals import Principal


def exported(context: Context, principal: Principal) -> ConfigurationView:
    """Return all that a principal may configure; what has its default is left out, as are secrets."""
    catalog = context.registry.catalog
    codes = [code for code in sorted(catalog.destinations) if principal.may(Action.CONFIGURE, code)]
    destinations = [
        {
            **_said(DestinationBody.of(catalog.destinations[code])),
            "subscriptions": [
                _said(SubscriptionBody.of(one)) for one in sorted(catalog.of(code), key=lambda one: one.name)
            ],
        }
        for code in codes
    ]
    is_whole = principal.may(Action.CONFIGURE, None)
    return ConfigurationView(
        version=context.registry.revision,
        destinations=destinations,
        rates=rates_view(context).model_dump() if is_whole else msgspec.UNSET,
        clusters=clusters_view(context).model_dump() if is_whole else msgspec.UNSET,
    )


def _said(body: DestinationBody | SubscriptionBody) -> dict[str, Any]:
    said = body.model_dump(mode="json", exclude_defaults=True)
    return {name: said[name] for name in type(body).model_fields if name in said and name != "secret"}
