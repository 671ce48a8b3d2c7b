"""What the page of one message is made of."""
