"""The summary, sentences and page made from the small tables of an audit."""
