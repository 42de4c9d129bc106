"""Events in, decisions to the right part, nothing ends the service."""
