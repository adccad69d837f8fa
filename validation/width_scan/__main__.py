"""``python -m validation.width_scan``: same as ``hcgr-width-scan``."""

from validation.width_scan.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
