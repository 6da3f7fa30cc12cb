"""What runs inside the user's process: probes that watch, and a journal that they write to.

Standard library and the user's own torch only, Python 3.10 or newer; nothing of t4lint is imported. The folder is
loaded as the package `_t4lint_inside`, so that no name of it can hide a module of the user. Every probe fails open: the user's
call happens exactly once, with the same arguments, result and exceptions, whatever goes wrong in here.
"""
