"""The tuned table: its schema, its loader, look-ups, and that its command reproduces it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hcgr.tuned import model, table

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "tuned.schema.json").read_text(encoding="utf-8"))
COMMITTED: dict[str, Any] = json.loads(table.PATH.read_text(encoding="utf-8"))
COMMON = {"hc": 4, "hidden": 10240, "n_pad": 384, "cus": 256, "evidence": "modelled", "command": "make it"}
HEURISTIC = {"method": "heuristic", **COMMON}
SPLIT = {"method": "split_k", "split_k": 4, "row_tiles": 1, "waves": 4, **COMMON}
DECOUPLED = {"method": "decoupled", "stages": 3, "column_groups": 1, "row_tiles": 1, "waves": 4, **COMMON}
TILE = {"method": "tile", "block_rows": 64, "column_waves": 8, "stream_waves": 1, "passes": 1, **COMMON}


def small() -> dict[str, Any]:
    return {
        "gfx950": {
            "k1": {"64": dict(HEURISTIC), "256": dict(SPLIT), "1024": dict(DECOUPLED)},
            "k1_n336": {"512": dict(SPLIT)},
            "up_gate_mix": {"64": dict(TILE)},
            "up_gate_mix_n336": {"64": dict(HEURISTIC)},
        }
    }


def test_the_committed_table_fits_schema_and_loader() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(COMMITTED, SCHEMA)
    assert table.loaded() == table.parse(COMMITTED)


def test_the_committed_table_has_the_sections_and_counts_it_is_for() -> None:
    powers = {str(1 << n) for n in range(6, 17)}
    assert {section: set(entries) for section, entries in COMMITTED["gfx950"].items()} == {
        "k1": powers,
        "k1_n336": powers,
        "up_gate_mix": {n for n in powers if int(n) <= 8192},
        "up_gate_mix_n336": {"64"},
    }
    assert {section: set(entries) for section, entries in COMMITTED["gfx942"].items()} == {
        "k1": {"2048", "4096", "8192"}
    }


@pytest.mark.parametrize("arch", COMMITTED)
def test_the_command_of_the_table_reproduces_it(arch: str, tmp_path: Path) -> None:
    entries = [entry for section in COMMITTED[arch].values() for entry in section.values()]
    assert {entry["evidence"] for entry in entries} == {"modelled"}
    assert {entry["command"] for entry in entries} == {f"python -m hcgr.tuned.model --arch {arch}"}
    made = tmp_path / "table.json"
    model.main(["--arch", arch, "--table", str(made)])
    assert json.loads(made.read_text(encoding="utf-8")) == {arch: COMMITTED[arch]}


def _drop(entry: dict[str, Any], name: str) -> None:
    del entry[name]


BROKEN: dict[str, tuple[Any, str]] = {
    "arch": (lambda t: t.update(gfx90a={}), "gfx90a"),
    "section": (lambda t: t["gfx950"].update(k2={"64": TILE}), "k2"),
    "section padding": (lambda t: t["gfx950"].update(k1_n0={"64": SPLIT}), "k1_n0"),
    "empty section": (lambda t: t["gfx950"].update(k1={}), "entries"),
    "count": (lambda t: t["gfx950"]["k1"].update({"064": SPLIT}), "064"),
    "count in other digits": (lambda t: t["gfx950"]["k1"].update({"\u0666\u0664": SPLIT}), "token counts"),
    "section in other digits": (lambda t: t["gfx950"].update({"k1_n3\u0663": {"64": SPLIT}}), "k1_n3"),
    "count 0": (lambda t: t["gfx950"]["k1"].update({"0": SPLIT}), "token counts"),
    "no evidence": (lambda t: _drop(t["gfx950"]["k1"]["64"], "evidence"), "evidence"),
    "no command": (lambda t: _drop(t["gfx950"]["k1"]["64"], "command"), "command"),
    "empty command": (lambda t: t["gfx950"]["k1"]["64"].update(command=""), "command"),
    "other evidence": (lambda t: t["gfx950"]["k1"]["64"].update(evidence="guessed"), "modelled, measured"),
    "method": (lambda t: t["gfx950"]["k1"]["64"].update(method="stream_k"), "stream_k"),
    "method of the other kernel": (lambda t: t["gfx950"]["k1"].update({"64": TILE}), "method"),
    "missing field": (lambda t: _drop(t["gfx950"]["k1"]["256"], "waves"), "waves"),
    "unknown field": (lambda t: t["gfx950"]["k1"]["256"].update(us=3.0), "fields"),
    "fractional": (lambda t: t["gfx950"]["k1"]["256"].update(waves=1.5), "waves"),
    "zero": (lambda t: t["gfx950"]["up_gate_mix"]["64"].update(passes=0), "passes"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_schema_and_loader_refuse_the_same(name: str) -> None:
    data = copy.deepcopy(small())
    jsonschema.validate(data, SCHEMA)
    table.parse(data)
    change, mention = BROKEN[name]
    change(data)
    with pytest.raises(table.TunedTableError, match=mention):
        table.parse(data)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, SCHEMA)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", r"t\.json must be JSON"),
        (b'{"gfx950": "\xff"}', r"t\.json must be JSON in UTF-8"),
        (b'{"gfx950": {}, "gfx942": {}, "gfx950": {}}', r"t\.json must be without a second 'gfx950'.*got '2 of them'"),
        (b"[]", "table must be an object"),
    ],
    ids=["cut off", "bytes", "a key twice", "a list"],
)
def test_a_damaged_file_is_an_error(
    content: bytes, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "t.json"
    broken.write_bytes(content)
    monkeypatch.setattr(table, "PATH", broken)
    table.loaded.cache_clear()
    try:
        with pytest.raises(table.TunedTableError, match=words):
            table.loaded()
    finally:
        monkeypatch.undo()
        table.loaded.cache_clear()


@pytest.fixture
def small_table(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = table.parse(small())
    monkeypatch.setattr(table, "loaded", lambda: parsed)


@pytest.mark.parametrize(
    ("tokens", "n_pad", "entry"),
    [
        (63, 384, None),
        (64, 384, HEURISTIC),
        (127, 384, HEURISTIC),
        (129, 384, SPLIT),
        (511, 384, SPLIT),
        (513, 384, DECOUPLED),
        (10**7, 384, DECOUPLED),
        (511, 336, None),
        (512, 336, SPLIT),
        (10**7, 336, SPLIT),
    ],
)
def test_nearest_key_in_log_space(small_table: None, tokens: int, n_pad: int, entry: Any) -> None:
    assert table.k1_entry("gfx950", tokens, n_pad) == entry


@pytest.mark.parametrize(
    ("tokens", "stride", "entry"),
    [(64, 336, HEURISTIC), (65, 336, TILE), (63, 336, None), (64, 384, TILE), (640, 384, TILE), (1, 0, None)],
)
def test_sections_of_one_stride_hold_for_exact_counts_only(
    small_table: None, tokens: int, stride: int, entry: Any
) -> None:
    assert table.up_gate_mix_entry("gfx950", tokens, stride) == entry


def test_an_arch_without_sections_has_no_entry(small_table: None) -> None:
    assert table.k1_entry("gfx942", 4096, 384) is None
    assert table.up_gate_mix_entry("gfx942", 64, 384) is None
