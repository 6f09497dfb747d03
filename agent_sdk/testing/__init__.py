"""Fakes and conformance suites for the SDK's seams."""
