"""Identity, peer records, Noise sessions; no I/O."""
