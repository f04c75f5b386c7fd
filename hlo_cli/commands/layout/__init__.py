"""`hlo layout`: what a layout means, and what padding costs."""
