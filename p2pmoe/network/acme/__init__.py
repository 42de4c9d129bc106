"""A certificate by ACME (RFC 8555), fetched and renewed by the relay itself."""
