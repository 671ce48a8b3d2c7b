"""What a request goes through before and after its route."""
