"""FlyDSL kernels. Importing a module here imports flydsl; :mod:`hcgr.dispatch` does so on first use."""
