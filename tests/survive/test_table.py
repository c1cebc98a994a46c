"""README's table of what survives what says no more than the checks have shown, where a check can show it.

That a cluster keeps its records when a machine is lost for good, or when the power of one of its nodes goes, follows
from a killed primary; no machine was taken away, and the power only of all nodes at once.
"""

from __future__ import annotations

from typing import Any

from laser.engines.iggy.durability import default_of
from tests.commands import ROOT
from tests.survive.report import Entry, read_entries

README = (ROOT / "README.md").read_text()
PAGE = (ROOT / "docs" / "reliability.md").read_text()
ROWS = read_entries(ROOT / "docs" / "reliability.json")
HEAD = "| the log is at | durability |"


def table(text: str) -> list[list[str]]:
    block = text[text.index(HEAD) :].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]


def cells(place: str, durability: str) -> list[str]:
    (row,) = [row for row in table(README)[2:] if row[0].startswith(place) and row[1].startswith(durability)]
    return row[2:]


def zero(check: str, *names: str) -> None:
    found: dict[str, Any] = ROWS[check].found
    assert ROWS[check].long
    assert [found[name] for name in names] == [0] * len(names)


def test_readme_and_page_have_one_table() -> None:
    assert table(README) == table(PAGE)
    assert len(table(README)) == 9


def test_every_row_was_tried_in_the_long_form_and_kept() -> None:
    assert [name for name, entry in ROWS.items() if entry.skipped or entry.broken or not entry.long] == []


def test_embedded_keeps_what_killed_agents_had_written() -> None:
    for durability in ("`process`", "`power`"):
        assert cells("`embedded:DIR`", durability)[0] == "kept"
    zero("embedded_kills", "acknowledged but lost", "visible duplicates", "silent skips")


def test_embedded_keeps_what_the_power_leaves() -> None:
    assert cells("`embedded:DIR`", "`power`")[2] == "kept"
    zero("power_cut", "lost at power", "torn")
    # And the row above says that it does not.
    assert "can be lost" in cells("`embedded:DIR`", "`process`")[2]
    assert ROWS["power_cut"].found["lost at process"] > 0


def test_one_iggy_server_that_is_killed() -> None:
    assert cells("`iggy://`, one server", "`process`")[1] == "kept"
    assert cells("`iggy://`, one server", "`power`")[1] == "kept"
    zero("iggy_durability", "lost at process", "lost at power")
    memory = cells("`iggy://`, one server", "`memory`")[1]
    assert "newest are lost" in memory
    assert "1,024" in memory
    # Up to 1,024 in each of four partitions.
    assert 0 < ROWS["iggy_durability"].found["most lost by one kill at memory"] <= 4 * 1_024


def test_one_iggy_server_whose_power_goes() -> None:
    assert cells("`iggy://`, one server", "`power`")[2] == "kept"
    zero("iggy_power_cut", "lost at power")
    assert "can be lost" in cells("`iggy://`, one server", "`process`")[2]
    assert ROWS["iggy_power_cut"].found["lost at process"] > 0


def test_a_cluster_that_loses_its_primary() -> None:
    assert cells("`iggy://`, a cluster of three", "any")[1] == "kept"
    zero("iggy_failover", "acknowledged but lost", "visible duplicates", "silent skips")
    assert ROWS["iggy_failover"].found["seconds to heal, longest"] <= 10


def test_a_cluster_whose_power_goes() -> None:
    text = cells("`iggy://`, a cluster of three", "any")[2]
    assert "the newest can be lost" in text
    assert "at `power` only those of the last moment" in text
    zero("iggy_cluster_power_cut", "torn")
    found = ROWS["iggy_cluster_power_cut"].found
    assert 0 < found["lost at power"] < found["lost at process"]


def test_the_defaults_are_those_of_the_engines() -> None:
    keys = ["messages_required_to_save", "enforce_fsync"]
    assert f"`{default_of(keys)}` (laser's default)" in README
    assert "`process` (default)" in README


def test_a_table_that_says_more_is_seen() -> None:
    entry = Entry("x", "p", found={"lost": 1})
    ROWS["planted"] = entry
    try:
        zero("planted", "lost")
    except AssertionError:
        return
    finally:
        del ROWS["planted"]
    raise AssertionError("a loss passed for none")
