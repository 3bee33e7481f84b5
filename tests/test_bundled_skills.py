"""The skills that ship: right by the specification, small enough, and nothing in them that does not work."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent.prompt.activation import check_list
from agent.prompt.check import check_skill, queries
from agent.prompt.skills import load_page

SKILLS = sorted(p.parent for p in (Path(__file__).parents[1] / "skills").glob("*/SKILL.md"))
BODY = 6000  # bytes: 1,500 tokens of such text, which has 4 to 4.4 bytes a token
NAMES = {
    *("scaffold-python", "scaffold-web", "scaffold-api", "scaffold-cli", "mcp-server"),
    *("write-skill", "debug", "write-tests", "mermaid", "portfolio-page"),
}


@pytest.fixture(params=SKILLS, ids=lambda p: p.name)
def skill(request: pytest.FixtureRequest) -> Path:
    return request.param


def test_all_of_them_are_there() -> None:
    assert {s.name for s in SKILLS} == NAMES


def test_a_bundled_skill_passes_its_check(skill: Path) -> None:
    assert check_skill(skill) == []


def test_a_bundled_skill_is_short_and_has_steps_and_a_check_list(skill: Path) -> None:
    page = load_page(skill / "SKILL.md")
    assert len(page.body.encode()) <= BODY
    assert "## Steps" in page.body and 3 <= len(check_list(page.body)) <= 5
    assert len(queries(skill)) >= 5
    assert any((skill / "references").iterdir())


def test_each_file_of_a_bundled_skill_is_named_in_it(skill: Path) -> None:
    said = (skill / "SKILL.md").read_text(encoding="utf-8")
    for file in [*(skill / "references").glob("*"), *(skill / "scripts").glob("*")]:
        assert f"{file.parent.name}/{file.name}" in said


def test_scripts_are_sound_and_those_of_one_name_are_the_same() -> None:
    scripts = [f for s in SKILLS for f in (s / "scripts").glob("*.sh")]
    assert len({f.read_bytes() for f in scripts if f.name == "new.sh"}) == 1
    shellcheck = Path(sys.executable).with_name("shellcheck")
    subprocess.run([shellcheck, *scripts], check=True)


def new(skill: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    script = SKILLS[0].parent / skill / "scripts" / "new.sh"
    env = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(["sh", script, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize(
    ("skill", "variant"),
    [
        *((s, None) for s in ("scaffold-python", "scaffold-cli", "scaffold-api", "mcp-server", "portfolio-page")),
        ("scaffold-web", "vite"),
        ("scaffold-web", "plain"),
    ],
)
def test_a_template_is_copied_whole_under_its_new_name_and_overwrites_nothing(
    tmp_path: Path, skill: str, variant: str | None
) -> None:
    arguments = ["My Thing_2", *([variant] if variant else [])]
    assert new(skill, *arguments, cwd=tmp_path).returncode == 0
    made = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert made and not any(re.search(r"\b(NAME|MODULE)\b|MODULE\.", p.read_text(encoding="utf-8")) for p in made)
    assert "MODULE" not in "".join(map(str, made))
    made[0].write_text("mine")
    again = new(skill, *arguments, cwd=tmp_path)
    assert "(it was there)" in again.stdout and "made" not in again.stdout
    assert made[0].read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "which name?"),
        (["json"], "module json of its own"),
        (["1st"], "no good name"),
        (["a/b"], "no good name"),
        (["tests"], "taken by the layout"),
        (["x", "nope"], "no variant nope"),
    ],
)
def test_a_name_that_would_not_work_is_refused(tmp_path: Path, arguments: list[str], says: str) -> None:
    done = new("scaffold-python", *arguments, cwd=tmp_path)
    assert done.returncode == 2 and says in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_plain_web_template_passes_its_tests_without_packages(tmp_path: Path) -> None:
    new("scaffold-web", "shop", "plain", cwd=tmp_path)
    done = subprocess.run(["node", "--test"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


# ---- the portfolio page
CHECK = SKILLS[0].parent / "portfolio-page" / "scripts" / "check.py"
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Grace</title>
<meta name="viewport" content="width=device-width"><meta name="description" content="x"></head>
<body><main id="m"><h1>Grace</h1>{}</main></body></html>"""


@pytest.mark.parametrize(
    ("inside", "says"),
    [
        ("<p>hello</p>", "good"),
        ("<p>one<p>two<ul><li>a<li>b</ul>", "good"),
        ('<a href="#m">up</a><img src="x.png" alt=""><br/>', "x.png is not there"),
        ('<a href="#nowhere">x</a>', "#nowhere is no id"),
        ('<a href="#">x</a>', "leads nowhere"),
        ("<img src='data:,'>", "needs alt"),
        ("<div><p>x</div></section>", "</section> closes nothing"),
        ("<section>", "is never closed"),
        ("<h3>x</h3>", "a level was left out"),
        ("<h1>x</h1>", "2 <h1>"),
        ('<p id="m">x</p>', "stands twice"),
        ("<p>Lorem ipsum</p>", "sample text"),
        ('<a href="mailto:ada@example.com">x</a>', "sample address"),
    ],
)
def test_the_page_checker_names_what_is_wrong(tmp_path: Path, inside: str, says: str) -> None:
    (tmp_path / "index.html").write_text(PAGE.format(inside))
    done = subprocess.run([sys.executable, CHECK], cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert says in done.stdout
    assert (done.returncode == 0) == (says == "good")


@pytest.mark.skipif(
    not any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")),
    reason="NOT TESTED here: whether the portfolio page can be drawn. Get a browser: apt install chromium (Debian), "
    "dnf install chromium (Fedora), pacman -S chromium (Arch)",
)
def test_the_template_page_is_drawn_by_a_real_browser(tmp_path: Path) -> None:
    new("portfolio-page", "page", cwd=tmp_path)
    picture = CHECK.with_name("picture.sh")
    done = subprocess.run(
        ["sh", picture, "index.html", "p.png", "390x800"], cwd=tmp_path, capture_output=True, text=True, timeout=90
    )
    assert done.returncode == 0, done.stderr
    head = (tmp_path / "p.png").read_bytes()
    assert head[:4] == b"\x89PNG" and len(head) > 10_000
    assert (int.from_bytes(head[16:20]), int.from_bytes(head[20:24])) == (390, 800)


# ---- diagrams
@pytest.mark.indexes
@pytest.mark.timeout(300)
def test_the_example_diagrams_parse_and_a_broken_one_is_named_with_its_line(tmp_path: Path) -> None:
    skill = SKILLS[0].parent / "mermaid"
    install = ["npm", "install", "--prefix", str(tmp_path), "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run([*install, "mermaid", "happy-dom@20"], check=True, capture_output=True, timeout=240)
    broken = tmp_path / "broken.md"
    broken.write_text("# x\n\n```mermaid\nflowchart TD\n  a[no (quotes)] --> b\n```\n")

    def parse(file: Path) -> subprocess.CompletedProcess[str]:
        env = {"PATH": os.environ["PATH"], "NODE_PATH": str(tmp_path / "node_modules")}
        command = ["node", skill / "scripts" / "check.mjs", file]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)

    good = parse(skill / "references" / "examples.md")
    assert good.returncode == 0 and "6 diagrams, 0 bad" in good.stdout
    bad = parse(broken)
    assert bad.returncode == 1 and f"{broken}:4:" in bad.stdout and "on line 5" in bad.stdout


def test_sample_prompts_are_json_of_the_usual_form(skill: Path) -> None:
    entries = json.loads((skill / "evals" / "eval_queries.json").read_text(encoding="utf-8"))
    assert all(set(e) == {"query", "should_trigger"} for e in entries)
    assert sum(e["should_trigger"] for e in entries) >= 3 and not all(e["should_trigger"] for e in entries)
