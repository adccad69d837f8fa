"""Operations under test that ship with the validator: HCGR, entry point by entry point."""
