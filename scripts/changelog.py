"""The changelog from fragments: ``python scripts/changelog.py`` prints them, ``… release`` moves them into CHANGELOG.md.

A fragment is a file ``changes/NAME.SECTION.md``; see ``changes/README.md``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from intarsia import __version__

ROOT = Path(__file__).parents[1]
SECTIONS = {
    "added": "Added",
    "changed": "Changed",
    "results": "Changed results",
    "fixed": "Fixed",
    "removed": "Removed",
}


def fragments(folder: Path) -> dict[str, list[Path]]:
    """Return the fragments of each section; a file of no section is an error."""
    files = [path for path in sorted(folder.glob("*.md")) if path.name != "README.md"]
    wrong = [path.name for path in files if path.name.count(".") != 2 or path.name.split(".")[1] not in SECTIONS]
    if wrong:
        raise SystemExit(f"not NAME.SECTION.md, where SECTION is one of {', '.join(SECTIONS)}: {', '.join(wrong)}")
    return {section: [path for path in files if path.name.split(".")[1] == section] for section in SECTIONS}


def together(folder: Path) -> str:
    """Return all fragments as sections of the changelog."""
    text = ""
    for section, files in fragments(folder).items():
        if files:
            entries = [path.read_text(encoding="utf-8").strip().replace("\n", "\n  ") for path in files]
            text += f"### {SECTIONS[section]}\n\n" + "".join(f"- {entry}\n" for entry in entries) + "\n"
    return text


def released(changelog: str, version: str, text: str) -> str:
    """Return the changelog with the text below the title of a version, which is added if it is not there."""
    title = f"## {version}"
    if title not in changelog:
        head, _, rest = changelog.partition("\n## ")
        return f"{head}\n{title}\n\n{text}" + (f"## {rest}" if rest else "")
    before, _, after = changelog.partition(title)
    line, _, rest = after.partition("\n")
    return f"{before}{title}{line}\n\n{text}{rest.lstrip()}"


def main() -> None:
    """Print the fragments, or move them into the changelog."""
    folder, path = ROOT / "changes", ROOT / "CHANGELOG.md"
    text = together(folder)
    if sys.argv[1:] == ["release"]:
        path.write_text(released(path.read_text(encoding="utf-8"), __version__, text), encoding="utf-8")
        for files in fragments(folder).values():
            for file in files:
                file.unlink()
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
