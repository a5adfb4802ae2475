//! The fault table: one row a word, from which parsing, writing, the schema, the docs and `list faults` are drawn.
