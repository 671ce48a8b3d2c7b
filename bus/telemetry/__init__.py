"""What the bus tells about itself: metrics and logs."""
