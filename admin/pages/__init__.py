"""The pages at ``/admin``, built on the admin API alone.

A page is a module here; what several pages show is in ``parts``. A page asks the API as its viewer, so that it can do
nothing that the viewer could not do with a key.
"""
