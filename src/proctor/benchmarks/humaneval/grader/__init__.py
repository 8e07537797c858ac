"""The grading program: runs in the environment, with its Python and nothing of proctor there.

`bundle.source()` joins the modules of this folder into one program text for `python3 -I -S -c`.
They use only the standard library of Python 3.8 and newer, and import only each other.
"""
