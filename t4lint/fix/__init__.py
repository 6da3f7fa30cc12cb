"""Fixes: from what a rule says about the program to text edits, tried before they are offered, and written safely.

`render` finds the text edits, `loop` tries and applies them, `write` writes files. Nothing is imported here, so that a
check without fixes does not pay for them.
"""
