"""The measurements of `router capd bench`, and the yardsticks with which they are compared."""
