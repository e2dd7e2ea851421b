from pathlib import Path

from index.demo import python_reference


def test_the_newest_installed_reference_is_taken(tmp_path: Path) -> None:
    assert python_reference(tmp_path) is None
    for version in ("3.9", "3.11"):
        page = tmp_path / f"python{version}" / "html" / "library" / "stdtypes.html"
        page.parent.mkdir(parents=True)
        page.touch()
    (tmp_path / "python3").symlink_to(tmp_path / "python3.9")
    assert python_reference(tmp_path) == (tmp_path / "python3.11" / "html").resolve()
