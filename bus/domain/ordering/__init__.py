"""Rules of ordered delivery over events, so that a simulation can drive them."""
