"""How long it takes to find skills in a tree of 100,000 files, wherever they lie: CPU time, medians of seven runs, and
beside each what a mere listing of the same tree by `os.walk` takes, so that the pace of the machine drops out.

    .venv/bin/python scripts/bench_skills.py
"""

import os
import statistics
import tempfile
import time
from pathlib import Path

from agent.config.trust import Trust
from agent.prompt.skillbook import SkillBook
from agent.prompt.skills import roots

FILES, RUNS = 100_000, 7


def skill(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {folder.name}\ndescription: Use for {folder.name}.\n---\nDo it.\n")


def fill(base: Path, files: int, each: int) -> None:
    for n in range(files // each):
        place = base / f"d{n // 50}" / f"e{n}"
        place.mkdir(parents=True)
        for m in range(each):
            (place / f"f{m}").touch()


def median(work) -> float:
    times = []
    for _ in range(RUNS):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return statistics.median(times) * 1000


def measure(title: str, project: Path, state: Path) -> None:
    trust = Trust(state / "trust.json", everything=True)
    places = roots(project, state / "config", state / "home", None)
    found = SkillBook(places, trust, lambda: "", 32_768).found
    ms = median(lambda: SkillBook(places, trust, lambda: "", 32_768))
    walk = median(lambda: sum(len(names) for _, _, names in os.walk(project)))
    print(f"{title}: {len(found.skills)} skills in {ms:.0f} ms; os.walk of the tree takes {walk:.0f} ms")


with tempfile.TemporaryDirectory() as temporary:
    base = Path(temporary)
    for name, where in (("beside", "src"), ("inside", ".agents/skills/big/data"), ("among", ".agents/skills/group")):
        project = base / name
        (project / ".git").mkdir(parents=True)
        for n in range(20):
            skill(project / ".agents" / "skills" / f"s{n}")
        if name == "inside":
            skill(project / ".agents" / "skills" / "big")
        fill(project / where, FILES, 100)
    measure("the files are the project's", base / "beside", base)
    measure("the files are a skill's own", base / "inside", base)
    measure("the files lie where skills are looked for", base / "among", base)
    many = base / "many"
    (many / ".git").mkdir(parents=True)
    for n in range(200):
        skill(many / ".agents" / "skills" / f"s{n}")
    measure("200 skills", many, base)
