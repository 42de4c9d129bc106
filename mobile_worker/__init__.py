"""What every serving device carries: arithmetic, shards, sessions, the serve loop."""
