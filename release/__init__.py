"""What is given out at a release: wheel, source archive, Debian package and list of components.

`make dist`, `make deb` and `make release` run these programs; nothing of the router imports them.
"""
