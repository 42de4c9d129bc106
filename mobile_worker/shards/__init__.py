"""Experts as content-addressed files."""
