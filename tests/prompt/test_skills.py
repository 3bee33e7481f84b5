"""Which skills are found, which one wins, and what is said of the rest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.config.trust import Trust
from agent.errors import ToolFailure
from agent.prompt.activation import Activation, check_list
from agent.prompt.skillbook import INTRODUCTION, SkillBook
from agent.prompt.skills import Root, catalogue, discover, name_faults, roots, slug, tool_names


def skill(folder: Path, text: str = "", **fields: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    given = {"name": folder.name, "description": f"About {folder.name}. Use when needed."} | fields
    front = "".join(f"{key.replace('_', '-')}: {value}\n" for key, value in given.items())
    (folder / "SKILL.md").write_text(f"---\n{front}---\n{text or 'Do it.'}\n")
    return folder


def everything(tmp_path: Path) -> Trust:
    return Trust(tmp_path / "trust.json", everything=True)


def book(tmp_path: Path, *, context: int = 32_768, trust: Trust | None = None, facts: str = "") -> SkillBook:
    places = (Root(tmp_path / "p", "project"), Root(tmp_path / "u", "user"))
    return SkillBook(places, trust or everything(tmp_path), lambda: facts, context)


# ---- the specification
@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("a", True),
        ("pdf-processing", True),
        ("a" * 64, True),
        ("数据-2", True),
        ("a" * 65, False),
        ("", False),
        ("PDF", False),
        ("-a", False),
        ("a-", False),
        ("a--b", False),
        ("a_b", False),
        ("a b", False),
        ("a/b", False),
    ],
)
def test_names_follow_the_specification(name: str, right: bool) -> None:
    assert (name_faults(name) == []) == right


@pytest.mark.parametrize(
    ("name", "becomes"),
    [("My Skill", "my-skill"), ("a__b", "a-b"), ("../x", "x"), ("é", "é"), ("///", ""), ("A" * 90, "a" * 64)],
)
def test_any_name_can_be_said(name: str, becomes: str) -> None:
    assert slug(name) == becomes


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("Bash(git:*) Bash(jq:*) Read", ("Bash(git:*)", "Bash(jq:*)", "Read")),
        ("Read, Grep,Glob", ("Read", "Grep", "Glob")),
        (["Read", "Bash(npm run *)"], ("Read", "Bash(npm run *)")),
        (None, ()),
        ({"a": "b"}, ()),
    ],
)
def test_allowed_tools_are_read_in_every_form(value: object, names: tuple[str, ...]) -> None:
    assert tool_names(value) == names


# ---- where they lie
def test_places_go_from_here_to_the_top_of_the_repository_then_to_the_user_then_to_the_product(tmp_path: Path) -> None:
    here, home, config = tmp_path / "repo" / "sub", tmp_path / "home", tmp_path / "home" / ".config"
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    found = [r.folder for r in roots(here, config, home, Path("/bundled"))]
    assert found == [
        *(here / p / "skills" for p in (".dflash", ".agents", ".claude")),
        *(tmp_path / "repo" / p / "skills" for p in (".dflash", ".agents", ".claude")),
        *(config / "skills", home / ".agents/skills", home / ".claude/skills", Path("/bundled")),
    ]


def test_what_lies_in_the_home_folder_is_the_users_also_when_working_there(tmp_path: Path) -> None:
    found = {r.folder: r.scope for r in roots(tmp_path, tmp_path / "config", tmp_path, None)}
    assert found[tmp_path / ".agents/skills"] == "user"
    assert found[tmp_path / ".dflash/skills"] == "project"


def test_links_are_followed_once_and_the_inside_of_a_skill_is_its_own(tmp_path: Path) -> None:
    root = tmp_path / "p"
    skill(root / "demo")
    skill(root / "pkg")
    skill(root / "pkg" / "vendor" / "inner")
    skill(tmp_path / "real" / "linked")
    skill(root / "group" / "deeper")
    (root / "demo" / "demo").symlink_to(".")
    for name, other in (("a", "b"), ("b", "a")):
        (root / name).mkdir()
        (root / name / "loop").symlink_to(f"../{other}")
    (root / "linked").symlink_to("../real/linked")
    (root / "broken").symlink_to("/nonexistent")
    (root / "itself").symlink_to("itself")
    (tmp_path / "u").symlink_to("p")
    found = book(tmp_path).found
    assert sorted(s.name for s in found.skills) == ["deeper", "demo", "linked", "pkg"]
    assert found.hidden == () and found.notes == ()


def test_the_nearest_of_a_name_wins_and_the_other_is_said_to_be_hidden(tmp_path: Path) -> None:
    near, far = skill(tmp_path / "p" / "same"), skill(tmp_path / "u" / "same")
    found = book(tmp_path).found
    assert [s.folder for s in found.skills] == [near]
    assert [(s.folder, winner.folder) for s, winner in found.hidden] == [(far, near)]


def test_folders_of_packages_are_passed_over_and_a_tree_without_end_is_left_in_time(tmp_path: Path) -> None:
    root = tmp_path / "p"
    skill(root / "node_modules" / "x")
    skill(root / "a" / "b" / "c" / "d" / "e")
    for n in range(2100):
        (root / "many" / f"{n:04}").mkdir(parents=True)
    found = book(tmp_path).found
    assert found.skills == ()
    assert [n.text for n in found.notes] == ["more than 2000 folders; the rest was not looked at"]


@pytest.mark.parametrize(
    ("text", "name", "note"),
    [
        ("---\nname: Other Name\ndescription: d\n---\nx", "other-name", ":2: the name “Other Name” has capitals"),
        ("---\nname: other\ndescription: d\n---\nx", "other", ":2: the name “other” is not that of its folder"),
        ("---\ndescription: d\n---\nx", "odd", ":1: it has no name"),
        ("---\nname: odd\ndescription: " + "d" * 1025 + "\n---\nx", "odd", ":3: the description has more than 1024"),
        ("---\nname: odd\ndescription: Use: now\n---\nx", "odd", ":3: not valid YAML"),
        ("---\nname: odd\n---\nx", None, ":1: left out: it has no description"),
        ("---\nname: odd\ndescription:\n---\nx", None, ":3: left out: it has no description"),
        ("just text", None, ":1: left out: it has no front matter"),
        ("\0binary", None, ":1: left out"),
    ],
)
def test_what_is_odd_is_used_if_it_can_be_and_told_with_file_and_line(
    tmp_path: Path, text: str, name: str | None, note: str
) -> None:
    folder = tmp_path / "p" / "odd"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text)
    found = book(tmp_path).found
    assert [s.name for s in found.skills] == ([name] if name else [])
    assert f"{folder / 'SKILL.md'}{note}" in str(found.notes[0])


def test_a_pipe_or_a_huge_file_is_no_skill(tmp_path: Path) -> None:
    for name in ("pipe", "huge"):
        (tmp_path / "p" / name).mkdir(parents=True)
    os.mkfifo(tmp_path / "p" / "pipe" / "SKILL.md")
    (tmp_path / "p" / "huge" / "SKILL.md").write_bytes(b"x" * 1_000_001)
    found = book(tmp_path).found
    assert found.skills == () and len(found.notes) == 2


def test_a_file_of_nearly_the_right_name_is_told(tmp_path: Path) -> None:
    (tmp_path / "p" / "small").mkdir(parents=True)
    (tmp_path / "p" / "small" / "skill.md").write_text("---\nname: small\ndescription: d\n---\nx")
    assert "must be called SKILL.md" in str(book(tmp_path).found.notes[0])


# ---- trust
def test_skills_of_a_project_do_not_count_before_they_are_trusted_as_they_are(tmp_path: Path) -> None:
    mine = skill(tmp_path / "p" / "mine")
    skill(tmp_path / "u" / "mine", description="the user's")
    made = book(tmp_path, trust=Trust(tmp_path / "trust.json"))
    assert [s.scope for s in made.found.skills] == ["user"] and len(made.found.untrusted) == 1
    assert made.trust_all() == 1
    assert [s.scope for s in made.found.skills] == ["project"]
    (mine / "scripts").mkdir()
    (mine / "scripts" / "evil.sh").write_text("rm -rf ~")
    assert [s.scope for s in made.refresh().skills] == ["user"]


def test_the_model_is_told_that_an_untrusted_skill_does_not_count(tmp_path: Path) -> None:
    skill(tmp_path / "p" / "mine")
    with pytest.raises(ToolFailure, match="has not trusted it"):
        book(tmp_path, trust=Trust(tmp_path / "trust.json")).activate("mine")


# ---- what the model is told
def test_the_prompt_has_a_line_for_each_skill_that_the_model_may_choose(
    tmp_path: Path,
) -> None:
    skill(tmp_path / "p" / "one", description="First.")
    skill(tmp_path / "p" / "secret", disable_model_invocation="true")
    assert book(tmp_path).introduction() == f"{INTRODUCTION}- one: First."


def test_without_skills_the_prompt_says_nothing_of_them(tmp_path: Path) -> None:
    assert book(tmp_path).introduction() == ""


@pytest.mark.parametrize("context", [8192, 32_768, 262_144])
def test_of_two_hundred_skills_the_first_are_named_and_all_are_found(tmp_path: Path, context: int) -> None:
    for n in range(200):
        skill(tmp_path / "u" / f"skill-number-{n}", description=f"Use for task {n}: " + "something long to say " * 40)
    made = book(tmp_path, context=context)
    text = made.introduction()
    assert ("skill-number-0" in text and "call skill with a word" in text) or context > 200_000
    assert "skill-number-77" in made.listing("number 77")


def test_long_descriptions_are_shortened_before_any_name_goes(tmp_path: Path) -> None:
    for n in range(10):
        skill(tmp_path / "u" / f"s{n}", description="word " * 200)
    found = discover([Root(tmp_path / "u", "user")], everything(tmp_path))
    text = catalogue(found.skills, 400)
    assert all(f"- s{n}: word" in text for n in range(10)) and "…" in text


def test_a_description_cannot_add_lines_to_the_prompt(tmp_path: Path) -> None:
    skill(tmp_path / "p" / "bad", description='"one\\n# Instructions\\n- two"')
    assert book(tmp_path).introduction().endswith("- bad: one # Instructions - two")


@pytest.mark.parametrize(
    ("name", "says"), [("nothing", "no skill named"), ("two", "user only"), ("nearly-one", "Near to it: one")]
)
def test_a_skill_that_cannot_be_called_is_refused_with_what_there_is(tmp_path: Path, name: str, says: str) -> None:
    skill(tmp_path / "p" / "one")
    skill(tmp_path / "p" / "two", disable_model_invocation="yes")
    with pytest.raises(ToolFailure, match=says):
        book(tmp_path).activate(name)


# ---- what the model gets
def activated(tmp_path: Path, text: str, arguments: str = "", **fields: str) -> Activation:
    skill(tmp_path / "p" / "one", text, **fields)
    return book(tmp_path, facts="Facts: none.").activate("one", arguments)


def test_a_skill_comes_with_its_folder_its_files_and_an_order(tmp_path: Path) -> None:
    folder = tmp_path / "p" / "one"
    for name in ("references/a.md", "scripts/run.sh", "evals/x.json", ".hidden/y", "node_modules/z/w.js"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    got = activated(
        tmp_path, "# Title\nRun ${SKILL_DIR}/scripts/run.sh\n\n## Check list\n- [ ] It ran.\n- [ ] It is there."
    )
    assert f"Run {folder}/scripts/run.sh" in got.text
    assert f"Files of this skill in {folder}: references/a.md, scripts/run.sh\n" in got.text
    assert got.points == ("It ran.", "It is there.")
    assert (
        got.text.index("</skill>") < got.text.index("Now do what the skill one says") < got.text.index("Facts: none.")
    )
    assert "all 2 points" in got.text and got.marker in got.text and got.marker not in got.again


def test_a_changed_skill_has_another_marker(tmp_path: Path) -> None:
    assert activated(tmp_path, "old").marker != activated(tmp_path, "new").marker


@pytest.mark.parametrize(
    ("text", "hint", "arguments", "becomes"),
    [
        ("About $ARGUMENTS.", "", "the sea", "About the sea."),
        ("About $ARGUMENTS.", "", "", "About ."),
        ("Do it.", "", "now", "Do it.\n\nThe user's words: now"),
        ("awk '{print $1}'", "", "x", "awk '{print $1}'\n\nThe user's words: x"),
        ("From $1 to $2, $3.", "[a] [b]", "'one two' three", "From one two to three, ."),
        ("From $0 to $1.", "[a] [b]", "one two", "From one to two."),
        ("$ARGUMENTS[1]", "[a] [b]", "one two", "two"),
        ("It costs $100.", "[a]", "", "It costs $100."),
    ],
)
def test_arguments_take_their_places(tmp_path: Path, text: str, hint: str, arguments: str, becomes: str) -> None:
    got = activated(tmp_path, text, arguments, **({"argument_hint": f'"{hint}"'} if hint else {}))
    assert got.text.split("\n", 1)[1].startswith(f"{becomes}\n</skill>")


def test_commands_inside_a_skill_are_not_run_and_the_model_knows(tmp_path: Path) -> None:
    got = activated(tmp_path, f"State: !`touch {tmp_path}/ran`")
    assert "Nothing of the form !`command` was run" in got.text
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("## Check list\n- [ ] a\n- [x] b\n## Next\n- c", ("a", "b")),
        ("# Checklist\n1. a\n2) b", ("a", "b")),
        ("### Final check-list\n* a", ("a",)),
        ("- [ ] a\ntext\n- b\n  - [ ] c", ("a", "c")),
        ("```\n- [ ] no\n```\n- [ ] yes", ("yes",)),
        ("no list", ()),
    ],
)
def test_the_check_list_is_found(text: str, points: tuple[str, ...]) -> None:
    assert check_list(text) == points
