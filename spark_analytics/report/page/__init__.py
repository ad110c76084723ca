"""The audit's summary as one self-contained HTML page for people."""

from .document import render as render
