"""What the product is made of: its packages, under which licences they are, and what is known to be faulty."""
