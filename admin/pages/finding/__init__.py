"""What the page that finds messages is made of."""
