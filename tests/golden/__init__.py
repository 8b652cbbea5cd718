"""Homes written by earlier versions, which every later version must open.

    home-1-data.tar.gz         values without code: any Python loads them
    home-1-python3.11.tar.gz   functions and classes: their code belongs to one minor version of Python

`python -m tests.golden.make` writes those of the version and the Python at hand; what is there already is kept. A
file is never replaced: it is what users' homes hold.
"""
