"""Operations under test that are not HCGR: what another repository would hold."""
