"""Who people are: sessions, logging in elsewhere, what they did and what they saved."""
