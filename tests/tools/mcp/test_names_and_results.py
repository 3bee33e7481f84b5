"""Names that every model server takes, and results that neither flood the context nor repeat themselves."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.tools.mcp.catalogue import ServerTool, block_entry
from agent.tools.mcp.mending import Refusals
from agent.tools.mcp.naming import LONGEST, Names
from agent.tools.mcp.results import Results
from agent.tools.mcp.sample import sample

PNG = b"\x89PNG\r\n\x1a\n" + bytes(3_000)


@given(st.lists(st.tuples(st.text(min_size=1, max_size=80), st.text(min_size=1, max_size=120)), max_size=30))
def test_names_fit_differ_and_lead_back(pairs: list[tuple[str, str]]) -> None:
    names = Names()
    given_out = {pair: names.of(*pair) for pair in pairs}
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in given_out.values())
    assert len(set(given_out.values())) == len(given_out)
    assert all(names.find(name) == pair and names.of(*pair) == name for pair, name in given_out.items())


def test_a_plain_name_stays_as_it_is_and_a_long_one_keeps_its_beginning() -> None:
    names = Names()
    assert names.of("git", "git_status") == "mcp__git__git_status"
    assert names.of("git.hub", "list/issues") == "mcp__git_hub__list_issues"
    long = names.of("server", "t" * 100)
    assert len(long) == LONGEST and long.startswith("mcp__server__ttt")


def output(tmp_path: Path, **result: Any) -> Any:
    return Results(tmp_path / "results").output(result, "s", "t")


def block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def test_a_long_text_is_bounded_and_whole_in_a_file(tmp_path: Path) -> None:
    text = "".join(f"line {n} of the text\n" for n in range(100_000))
    found = output(tmp_path, content=[block(text)])
    assert len(found.text) < 25_000
    file = re.search(r"in (/\S+\.txt)", found.text)
    assert file and Path(file[1]).read_text() == text.strip("\n") and str(len(text) - 1) in found.text


def test_many_blocks_are_bounded_together(tmp_path: Path) -> None:
    assert len(output(tmp_path, content=[block("z" * 1000)] * 200).text) < 25_000


def test_pictures_and_blobs_go_to_files_and_are_told_with_their_size(tmp_path: Path) -> None:
    data = base64.b64encode(PNG).decode()
    image = {"type": "image", "mimeType": "image/png", "data": data}
    blob = {"type": "resource", "resource": {"uri": "file:///x", "mimeType": "application/zip", "blob": data}}
    found = output(tmp_path, content=[image, blob], structuredContent={"data": data})
    assert data[:100] not in found.text and f"{len(PNG)} bytes" in found.text
    assert {f.suffix for f in (tmp_path / "results").iterdir()} == {".png", ".zip"}


def test_text_and_the_same_structure_are_told_once(tmp_path: Path) -> None:
    data = {"answer": "SECRET42", "n": 3}
    assert output(tmp_path, content=[block(json.dumps(data))], structuredContent=data).text.count("SECRET42") == 1
    assert output(tmp_path, content=[block("It is SECRET42, 3 times")], structuredContent=data).text.count("42") == 1
    assert output(tmp_path, content=[], structuredContent=data).text.count("SECRET42") == 1
    more = output(tmp_path, content=[block("2 found")], structuredContent={"names": ["a", "b"]})
    assert "2 found" in more.text and '"names"' in more.text


def test_failures_and_empty_results_say_so(tmp_path: Path) -> None:
    assert output(tmp_path, content=[]).text == "(no content)"
    assert output(tmp_path, content=[block("it broke")], isError=True).failed


def test_links_and_embedded_texts_are_short(tmp_path: Path) -> None:
    link = {"type": "resource_link", "uri": "file:///y", "name": "LINK"}
    embedded = {"type": "resource", "resource": {"uri": "file:///x", "text": "RES TEXT"}}
    assert (
        output(tmp_path, content=[link, embedded]).text == "[resource LINK: file:///y]\n[resource file:///x]\nRES TEXT"
    )


def test_without_a_place_for_files_the_rest_still_arrives(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file, no folder")
    image = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}
    assert output(tmp_path, content=[image, block("and text")]).text.endswith("left out]\nand text")


def test_a_schema_that_refers_to_itself_gets_an_end() -> None:
    node = {"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#/$defs/N"}}}
    assert sample(
        {"type": "object", "required": ["q"], "properties": {"q": {"$ref": "#/$defs/N"}}, "$defs": {"N": node}}
    )


def test_a_schema_without_an_end_is_said_plainer_before_any_engine_sees_it(tmp_path: Path) -> None:
    text = {"type": "string", "minLength": 5, "maxLength": 1}
    entry = block_entry("mcp__x__t", ServerTool("t", "", {"type": "object", "properties": {"a": {"items": [text]}}}))
    fine = block_entry("mcp__x__u", ServerTool("u", "", {"type": "object", "properties": {"minLength": {"type": "x"}}}))
    refusals = Refusals(tmp_path / "refused.json", "engine")
    assert "minLength" not in json.dumps(refusals.adapted(entry)) and refusals.adapted(fine) == fine
