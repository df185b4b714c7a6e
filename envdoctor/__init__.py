"""Says what is wrong with a GPU Python environment before the job starts: from files, with proof and the way out."""

__version__ = "0.1.0"
