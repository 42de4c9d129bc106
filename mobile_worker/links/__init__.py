"""Links to other peers: through the relay, direct, or in memory."""
