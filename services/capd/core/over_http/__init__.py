"""The pool over HTTP: its forms in JSON, the questions that are open, those who watch, and what each caller may ask."""
