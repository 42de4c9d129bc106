"""When and how much a worker may work here: limits, sensors, and a policy over both."""
