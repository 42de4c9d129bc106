"""The relay: a WebSocket meeting point that forwards sealed frames between peers."""
