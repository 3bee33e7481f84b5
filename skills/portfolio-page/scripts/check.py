"""check.py [FILE]: what is wrong with a page, as `file:line:` sentences; exit code 1 if anything is."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
MAY_STAY_OPEN = {"li", "p", "dt", "dd", "option", "tr", "td", "th", "thead", "tbody", "html", "head", "body"}
SAMPLE = re.compile(
    r"lorem ipsum|ada example|ada@example|your name|first project|second project|third project|role, company"
    r"|two sentences on who|one result in one sentence|todo",
    re.I,
)


class Page(HTMLParser):
    def __init__(self, file):
        super().__init__(convert_charrefs=True)
        self.file, self.faults = file, []
        self.open, self.ids, self.links = [], {}, []
        self.headings, self.seen = [], set()
        self.title = ""

    def fault(self, text, line=None):
        self.faults.append((line or self.getpos()[0], text))

    def handle_starttag(self, tag, pairs):
        given = dict(pairs)
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append((tag, self.getpos()[0]))
        if tag == "html" and not given.get("lang"):
            self.fault('<html> needs lang="…"')
        if tag == "meta":
            self.seen.add(f"meta {given.get('name', '')}")
            if "charset" in given:
                self.seen.add("charset")
        if tag == "img" and "alt" not in given:
            self.fault('<img> needs alt text (alt="" for mere ornament)')
        if re.fullmatch("h[1-6]", tag):
            level = int(tag[1])
            if self.headings and level > self.headings[-1] + 1:
                self.fault(f"<{tag}> follows <h{self.headings[-1]}>: a level was left out")
            self.headings.append(level)
        if identity := given.get("id"):
            if identity in self.ids:
                self.fault(f"id {identity} stands twice")
            self.ids[identity] = self.getpos()[0]
        for key in ("href", "src"):
            if given.get(key) is not None:
                self.links.append((self.getpos()[0], given[key].strip()))

    def handle_startendtag(self, tag, pairs):
        self.handle_starttag(tag, pairs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        while self.open and self.open[-1][0] != tag and self.open[-1][0] in MAY_STAY_OPEN:
            self.open.pop()
        if self.open and self.open[-1][0] == tag:
            self.open.pop()
        else:
            self.fault(f"</{tag}> closes nothing that is open")

    def handle_data(self, data):
        if self.open and self.open[-1][0] == "title":
            self.title += data
        if found := SAMPLE.search(data):
            self.fault(f"sample text is still there: {found[0]}")

    def finish(self):
        for tag, line in self.open:
            if tag not in MAY_STAY_OPEN:
                self.fault(f"<{tag}> is never closed", line)
        for want, why in (
            ("charset", 'no <meta charset="utf-8">'),
            ("meta viewport", "no viewport: phones will show it tiny"),
            ("meta description", "no description for search engines"),
            ("main", "no <main>"),
        ):
            if want not in self.seen:
                self.fault(why, 1)
        if not self.title.strip() or SAMPLE.search(self.title):
            self.fault("the <title> is empty or still the sample", 1)
        if self.headings.count(1) != 1:
            self.fault(f"there are {self.headings.count(1)} <h1>; one is right", 1)
        for line, link in self.links:
            self.follow(line, link)

    def follow(self, line, link):
        parts = urlsplit(link)
        if parts.scheme == "mailto" and parts.path.endswith("@example.com"):
            self.fault(f"sample address: {parts.path}", line)
        if parts.scheme or link.startswith("//"):
            return
        if not link or link == "#":
            self.fault("a link leads nowhere", line)
        elif not parts.path:
            if unquote(parts.fragment) not in self.ids:
                self.fault(f"#{parts.fragment} is no id of this page", line)
        elif not (self.file.parent / unquote(parts.path).lstrip("/")).exists():
            self.fault(f"{parts.path} is not there", line)


def main():
    file = Path(sys.argv[1] if len(sys.argv) > 1 else "index.html")
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        print(f"check.py: cannot read {file}: {error}")
        return 1
    page = Page(file)
    page.feed(text)
    page.close()
    page.finish()
    for line, fault in sorted(page.faults):
        print(f"{file}:{line}: {fault}")
    print(f"{file}: {len(page.faults)} faults" if page.faults else f"{file}: good")
    return 1 if page.faults else 0


if __name__ == "__main__":
    sys.exit(main())
