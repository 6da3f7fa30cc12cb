"""A GPU that is not there: torch runs an unmodified script against it, with shapes and dtypes but no values.

Another device of the recorder, in the person's own process: only the standard library and their torch are imported.
`start.install` is the way in.
"""
