"""Plain frozen values that the other rooms pass around. Nothing here does I/O."""
