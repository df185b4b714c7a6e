"""Bytes in, values out: parsers of compiled files; any input gives a value or a `BinaryError`."""
