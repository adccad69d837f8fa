"""Protocol scenarios of HCGR: ``catalogue`` lists them without importing torch, the other modules run them."""
