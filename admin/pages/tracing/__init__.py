"""Parts of the page of one message."""
