"""The nouns: frozen values, built from the standard library and `packaging` alone."""
