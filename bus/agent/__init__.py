"""``bus agent``: the SDK's spool behind an HTTP door, so that any language has what ``send()`` promises."""
