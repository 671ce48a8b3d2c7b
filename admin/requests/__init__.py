"""Steps of a request before and after its route."""
