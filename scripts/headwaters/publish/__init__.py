"""Publishing: the net change of a table goes to another system, exactly once in effect."""
