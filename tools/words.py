"""How many words README and the pages of the documentation have: tables and code count,
what the site makes from the code does not.

python tools/words.py
"""

from pathlib import Path

ROOT = Path(__file__).parent.parent


def words() -> dict[str, int]:
    """Return the words of each page, by its path."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return {
        str(page.relative_to(ROOT)): len(page.read_text("utf-8").split())
        for page in pages
        if "gallery" not in page.parts
    }


if __name__ == "__main__":
    counted = words()
    for name, count in counted.items():
        print(f"{count:>7,}  {name}")
    print(f"{sum(counted.values()):>7,}  in {len(counted)} pages")
