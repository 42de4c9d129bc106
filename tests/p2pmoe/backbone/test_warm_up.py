"""The measuring pass: bounded in time and in text."""
